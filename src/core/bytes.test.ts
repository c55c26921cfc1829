import fc from 'fast-check'
import { expect, test } from 'vitest'
import { ByteReader, ByteWriter } from './bytes.ts'
import { isReprise } from './errors.ts'

const codeOf = (act: () => unknown): string => {
  try {
    act()
  } catch (error) {
    if (isReprise(error)) return error.code
    throw error
  }
  return 'nothing was thrown'
}

type Piece =
  | { kind: 'byte' | 'integer'; value: number }
  | { kind: 'text'; value: string }
  | { kind: 'sized'; value: Uint8Array }

const piece: fc.Arbitrary<Piece> = fc.oneof(
  fc.record({ kind: fc.constant('byte' as const), value: fc.nat(255) }),
  fc.record({ kind: fc.constant('integer' as const), value: fc.maxSafeNat() }),
  fc.record({
    kind: fc.constant('text' as const),
    value: fc.oneof(fc.string(), fc.string({ unit: 'binary' }), fc.string({ minLength: 20, maxLength: 90 })),
  }),
  fc.record({ kind: fc.constant('sized' as const), value: fc.uint8Array() }),
)

const write = (pieces: readonly Piece[], capacity?: number): Uint8Array => {
  const writer = new ByteWriter(capacity)
  for (const { kind, value } of pieces) writer[kind](value as never)
  return writer.take()
}

test('any sequence of pieces reads back as written, whatever the capacity to start with', () => {
  fc.assert(
    fc.property(fc.array(piece), fc.nat(64), (pieces, capacity) => {
      const reader = new ByteReader(write(pieces, capacity))
      for (const { kind, value } of pieces) expect(reader[kind]()).toEqual(value)
      expect(reader.remaining).toBe(0)
    }),
  )
})

test('G15: data that is cut short is MALFORMED at the piece that is cut, never read past its end', () => {
  fc.assert(
    fc.property(fc.array(piece, { minLength: 1 }), fc.nat(), (pieces, cut) => {
      const bytes = write(pieces)
      const end = cut % bytes.length
      const reader = new ByteReader(bytes, 0, end)
      const read = () => {
        for (const { kind } of pieces) reader[kind]()
      }
      expect(codeOf(read)).toBe('MALFORMED')
      expect(reader.offset).toBeLessThanOrEqual(end)
    }),
  )
})

test('G15: any bytes are read as something or refused as MALFORMED', () => {
  fc.assert(
    fc.property(fc.uint8Array(), fc.constantFrom('byte', 'integer', 'text', 'sized'), (bytes, kind) => {
      expect(['MALFORMED', 'nothing was thrown']).toContain(codeOf(() => new ByteReader(bytes)[kind as 'text']()))
    }),
  )
})

test('integers take seven bits a byte, up to 2^53 - 1 and not beyond', () => {
  const length = (value: number) => write([{ kind: 'integer', value }]).length
  expect([0, 127, 128, 2 ** 14 - 1, 2 ** 14, Number.MAX_SAFE_INTEGER].map(length)).toEqual([1, 1, 2, 2, 3, 8])
  for (const bad of [-1, 0.5, 2 ** 53, Number.NaN]) expect(codeOf(() => new ByteWriter().integer(bad))).toBe('BUG')
  const tooLarge = Uint8Array.from([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f])
  expect(codeOf(() => new ByteReader(tooLarge).integer())).toBe('MALFORMED')
  expect(codeOf(() => new ByteReader(new Uint8Array(20).fill(0x80)).integer())).toBe('MALFORMED')
})

test('text keeps a byte order mark, and refuses bytes that are not UTF-8 at any length', () => {
  const text = '\ufeffmark'
  expect(new ByteReader(write([{ kind: 'text', value: text }])).text()).toBe(text)
  for (const size of [1, 23, 24, 70]) {
    expect(
      codeOf(() => new ByteReader(write([{ kind: 'sized', value: new Uint8Array(size).fill(0xff) }])).text()),
    ).toBe('MALFORMED')
  }
})

test('what take returns stays as it is when the writer is used again', () => {
  const writer = new ByteWriter(4)
  writer.text('one')
  const first = writer.take()
  writer.reset()
  writer.text('two')
  expect(new ByteReader(first).text()).toBe('one')
  expect(new ByteReader(writer.view()).text()).toBe('two')
})

test('half of a surrogate pair is never written as something else', () => {
  const units = fc.integer({ min: 0xd7f0, max: 0xe010 }).map((unit) => String.fromCharCode(unit))
  fc.assert(
    fc.property(fc.string({ unit: units, minLength: 1 }), (text) => {
      const isWhole = Buffer.from(text).toString() === text
      expect(codeOf(() => write([{ kind: 'text', value: text }]))).toBe(isWhole ? 'nothing was thrown' : 'BUG')
    }),
  )
})
