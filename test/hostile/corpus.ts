// Hostile input (the list in docs/guarantees.md), as data: unusual values of callers, unusual bytes of stores, texts for ids
// and names. Every decoder and every route is tested with it; add the inputs for a new one here.

import type { ErrorCode } from '../../src/core/errors.ts'

export interface HostileBytes {
  readonly name: string
  readonly hex: string
  readonly code: ErrorCode
}

/** For the value decoder: the bytes after the version, and the answer. */
export const hostileBytes: readonly HostileBytes[] = [
  { name: 'nothing', hex: '', code: 'MALFORMED' },
  { name: 'only a version', hex: '01', code: 'MALFORMED' },
  { name: 'a version of the future', hex: '0200', code: 'INCOMPATIBLE_VERSION' },
  { name: 'JSON', hex: Buffer.from('{"a":1}').toString('hex'), code: 'INCOMPATIBLE_VERSION' },
  { name: 'v8.serialize', hex: 'ff0f6f22016149027b01', code: 'INCOMPATIBLE_VERSION' },
  { name: 'trailing bytes', hex: '010000', code: 'MALFORMED' },
  { name: 'an unknown tag', hex: '019e', code: 'MALFORMED' },
  { name: 'the last tag', hex: '01ff', code: 'MALFORMED' },
  { name: 'a function tag of another format', hex: '01c1', code: 'MALFORMED' },
  { name: 'an integer with a spelling too long', hex: '0184808000', code: 'MALFORMED' },
  { name: 'a small integer spelled as a large one', hex: '018405', code: 'MALFORMED' },
  { name: 'an integer beyond 2^53', hex: '0184ffffffffffffff7f', code: 'MALFORMED' },
  { name: 'an integer of endless bytes', hex: `0184${'ff'.repeat(64)}`, code: 'MALFORMED' },
  { name: 'minus 2^53', hex: '0185ffffffffffffff0f', code: 'MALFORMED' },
  { name: 'an integer spelled as a float', hex: '0187000000000000f03f', code: 'MALFORMED' },
  { name: 'a float32 spelled as a float64', hex: '0187000000000000e03f', code: 'MALFORMED' },
  { name: 'NaN with a payload', hex: '0187010000000000f87f', code: 'MALFORMED' },
  { name: '-0 spelled as a float', hex: '018600000080', code: 'MALFORMED' },
  { name: 'a bigint with leading zeros', hex: '018c020001', code: 'MALFORMED' },
  { name: 'a negative bigint of zero', hex: '018d00', code: 'MALFORMED' },
  { name: 'a bigint longer than its data', hex: '018cffffffff0f01', code: 'MALFORMED' },
  { name: 'text longer than its data', hex: '0145616263', code: 'MALFORMED' },
  { name: 'text of 2^50 bytes', hex: '018e80808080808080026161', code: 'MALFORMED' },
  { name: 'text that is not UTF-8', hex: '0142c328', code: 'MALFORMED' },
  { name: 'text with an overlong NUL', hex: '0142c080', code: 'MALFORMED' },
  { name: 'half a surrogate pair in UTF-8', hex: '0143eda080', code: 'MALFORMED' },
  { name: 'well-formed text in UTF-16', hex: '018f016100', code: 'MALFORMED' },
  { name: 'short text spelled as a long one', hex: '018e0161', code: 'MALFORMED' },
  { name: 'an array of 2^40 items', hex: '0190808080808020', code: 'MALFORMED' },
  { name: 'a short array spelled as a long one', hex: '01900100', code: 'MALFORMED' },
  { name: 'a map of 2^40 entries', hex: '0195808080808020', code: 'MALFORMED' },
  { name: 'a set of 2^40 members', hex: '0196808080808020', code: 'MALFORMED' },
  { name: 'a buffer of 2^40 bytes', hex: '019a808080808020', code: 'MALFORMED' },
  { name: 'a typed array of 2^40 bytes', hex: '019b01808080808020', code: 'MALFORMED' },
  { name: 'a typed array of an unknown kind', hex: '019bff0100', code: 'MALFORMED' },
  { name: 'a typed array that ends inside an element', hex: '019b0903000000', code: 'MALFORMED' },
  { name: 'a sparse array longer than any array', hex: '0191808080801000', code: 'MALFORMED' },
  { name: 'a sparse array without holes', hex: '019101010000', code: 'MALFORMED' },
  { name: 'a sparse array with an index beyond its end', hex: '019103010500', code: 'MALFORMED' },
  { name: 'keys that are not sorted', hex: '0192044162416100 00'.replace(' ', ''), code: 'MALFORMED' },
  { name: 'the same key twice', hex: '01920441614161 0000'.replace(' ', ''), code: 'MALFORMED' },
  { name: 'a key that is not a text', hex: '0192010000', code: 'MALFORMED' },
  { name: 'keys without values', hex: '0192024161', code: 'MALFORMED' },
  { name: 'a shape of 2^40 bytes', hex: '0192808080808020', code: 'MALFORMED' },
  { name: 'the same shape twice', hex: '01629202416100920241 6100'.replace(' ', ''), code: 'MALFORMED' },
  { name: 'a shape that was never written', hex: '0170', code: 'MALFORMED' },
  { name: 'a later shape that was never written', hex: '0193ff01', code: 'MALFORMED' },
  { name: 'a small object written as a large one', hex: '019401416100', code: 'MALFORMED' },
  { name: 'a map with the same key twice', hex: '01950201020103', code: 'MALFORMED' },
  { name: 'a map with the key -0', hex: '0195018900', code: 'MALFORMED' },
  { name: 'a set with the same member twice', hex: '0196020101', code: 'MALFORMED' },
  { name: 'a date out of range', hex: '0197848180f0968cc1ac0f', code: 'MALFORMED' },
  { name: 'a date that is an object', hex: '0197920000', code: 'MALFORMED' },
  { name: 'a date of half a millisecond', hex: '01978600000 03f'.replace(' ', ''), code: 'MALFORMED' },
  { name: 'a regular expression that does not parse', hex: '0198412840', code: 'MALFORMED' },
  { name: 'a regular expression with unknown flags', hex: '019841614171', code: 'MALFORMED' },
  { name: 'an error of an unknown kind', hex: '0199c8920000', code: 'MALFORMED' },
  { name: 'an error without fields', hex: '01990000', code: 'MALFORMED' },
  { name: 'an error with a stack of its own', hex: '01990092064573746163 6b4161'.replace(' ', ''), code: 'MALFORMED' },
  { name: 'a class nobody registered', hex: '019c4850726f636573734500', code: 'UNKNOWN_CODEC' },
  { name: 'the class __proto__', hex: '019c495f5f70726f746f5f5f00', code: 'UNKNOWN_CODEC' },
  { name: 'the class constructor', hex: '019c4b636f6e7374727563746f7200', code: 'UNKNOWN_CODEC' },
  { name: 'the class Function', hex: '019c4846756e6374696f6e4161', code: 'UNKNOWN_CODEC' },
  { name: 'a reference to nothing', hex: '019d00', code: 'MALFORMED' },
  { name: 'a reference to what comes later', hex: '01619d01', code: 'MALFORMED' },
  { name: '5,000 levels', hex: `01${'61'.repeat(5000)}60`, code: 'LIMIT_EXCEEDED' },
  { name: '5,000 levels of dates', hex: `01${'97'.repeat(5000)}00`, code: 'LIMIT_EXCEEDED' },
  {
    name: '5,000 causes of errors',
    hex: `019900920645${'6361757365'}${'990070'.repeat(5000)}00`,
    code: 'LIMIT_EXCEEDED',
  },
]

/** Values that a caller may pass and that are returned unchanged. */
export const strangeValues: readonly { readonly name: string; readonly value: unknown }[] = [
  { name: 'a lone surrogate', value: { '\ud800': '\udfff', ok: 'a\ud83d' } },
  { name: 'NUL in text and keys', value: { '\0': 'a\0b' } },
  {
    name: '__proto__ and constructor as keys',
    value: JSON.parse('{"__proto__":{"isAdmin":true},"constructor":{"a":1}}'),
  },
  { name: 'integers beyond 2^53', value: [2 ** 53, 2 ** 64, -(2 ** 60), Number.MAX_VALUE, 2n ** 4000n] },
  { name: 'NaN, -0 and the infinities', value: [Number.NaN, -0, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY] },
  { name: 'dates at and out of range', value: [new Date(8.64e15), new Date(Number.NaN)] },
  {
    name: 'a tag of another format',
    value: { $type: 'Function', 'js/function': 'process.exit()', toJSON: 'x' },
  },
]

/** For ids and for names of files and imports: none of these may be used as a path, a query or markup. */
export const hostileNames: readonly string[] = [
  '',
  '..',
  '../../etc/passwd',
  '/etc/passwd',
  'a//b',
  '%2e%2e%2f',
  'C:\\windows',
  'a\0b',
  'a\nb',
  '\ud800',
  '\u202eevil',
  "'; DROP TABLE entries; --",
  '<script>alert(1)</script>',
  '__proto__',
  'constructor',
  'x'.repeat(300),
  'x'.repeat(100_000),
]
