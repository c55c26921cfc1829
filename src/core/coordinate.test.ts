import fc from 'fast-check'
import { expect, test } from 'vitest'
import { equalBytes, fromHex, timelineId, toHex } from './coordinate.ts'
import { isReprise } from './errors.ts'

const codeOf = (act: () => unknown): string => {
  try {
    act()
  } catch (error) {
    if (isReprise(error)) return error.code
    throw error
  }
  return 'accepted'
}

test('hexadecimal there and back is the same bytes, and its text sorts like they do', () => {
  fc.assert(
    fc.property(fc.uint8Array(), fc.uint8Array(), (one, two) => {
      expect(fromHex(toHex(one))).toEqual(one)
      expect(equalBytes(one, two)).toBe(toHex(one) === toHex(two))
      expect(equalBytes(one, one.slice())).toBe(true)
      expect(Math.sign(Buffer.compare(one, two))).toBe(toHex(one) < toHex(two) ? -1 : toHex(one) > toHex(two) ? 1 : 0)
    }),
  )
})

test('text that is not lower-case hexadecimal is refused', () => {
  for (const text of ['f', 'FF', 'fg', ' ff', 'f\n', '0x'])
    expect(
      codeOf(() => fromHex(text)),
      text,
    ).toBe('INVALID_ARGUMENT')
  expect(fromHex('')).toEqual(new Uint8Array())
})

// Code units around the surrogates: pairs, halves, and their neighbours.
const units = fc.integer({ min: 0xd7f0, max: 0xe010 }).map((unit) => String.fromCharCode(unit))

test('an accepted id has only whole segments without control characters or half pairs, and comes back unchanged', () => {
  fc.assert(
    fc.property(
      fc.oneof(
        fc.string({ unit: 'binary' }),
        fc.string({ unit: units }),
        fc.string(),
        fc.stringMatching(/^[a-c/]{0,6}$/),
      ),
      (text) => {
        const isFine =
          text.split('/').every((segment) => segment.length > 0) &&
          Buffer.from(text).toString() === text &&
          !/\p{Cc}/u.test(text) &&
          text.length <= 512
        expect(codeOf(() => timelineId(text))).toBe(isFine ? 'accepted' : 'INVALID_ID')
        if (isFine) expect(timelineId(text)).toBe(text)
      },
    ),
  )
})

test('ids have a longest length, and a test on each side of it', () => {
  expect(codeOf(() => timelineId('x'.repeat(512)))).toBe('accepted')
  expect(codeOf(() => timelineId('x'.repeat(513)))).toBe('INVALID_ID')
  expect(codeOf(() => timelineId('xxxx', 3))).toBe('INVALID_ID')
})

test('G15: hostile ids are refused, harmless odd ones are only data', () => {
  for (const bad of ['', '/a', 'a/', 'a//b', 'a\0b', 'a\nb', '\x7f', 'a\ud800', '\udc00b', '\udc00\ud800']) {
    expect(
      codeOf(() => timelineId(bad)),
      JSON.stringify(bad),
    ).toBe('INVALID_ID')
  }
  for (const bad of [null, undefined, 7, {}, ['a']]) expect(codeOf(() => timelineId(bad as never))).toBe('INVALID_ID')
  for (const odd of ['__proto__', '../../etc/passwd', "a'; DROP TABLE runs; --", '%2e%2e', 'a b', '🙂', 'C:\\x']) {
    expect(
      codeOf(() => timelineId(odd)),
      odd,
    ).toBe('accepted')
  }
})
