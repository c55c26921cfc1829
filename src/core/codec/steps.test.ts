import fc from 'fast-check'
import { expect, test, vi } from 'vitest'
import { isReprise } from '../errors.ts'
import { defaultLimits } from '../limits.ts'
import { Codec } from './codec.ts'
import { ValueDecoder } from './decoder.ts'
import { ValueEncoder } from './encoder.ts'
import { ReadShapes } from './shape.ts'

const codec = new Codec()

/** Runs to the end and counts the steps. */
function run<T>(steps: Generator<void, T>): { result: T; steps: number } {
  let count = 1
  for (;;) {
    const step = steps.next()
    if (step.done) return { result: step.value, steps: count }
    count += 1
  }
}

/** Values of many kinds, with the same objects in several places. */
const values = fc
  .tuple(
    fc.anything({ withMap: true, withSet: true, withDate: true, withBigInt: true, withTypedArray: true }),
    fc.array(fc.record({ id: fc.nat(), text: fc.string() }), { maxLength: 40 }),
    fc.dictionary(fc.string({ minLength: 1, maxLength: 20 }), fc.anything(), { maxKeys: 60 }),
  )
  .map(([any, rows, named]) => ({ any, rows, named, again: rows, map: new Map(Object.entries(named)), first: rows[0] }))

test('A4.4: bytes made in steps are the bytes made in one go, and so are the values read back', () => {
  fc.assert(
    fc.property(values, (value) => {
      let whole: Uint8Array
      try {
        whole = codec.encode(value)
      } catch (error) {
        expect(() => run(new ValueEncoder(new Map(), defaultLimits).encodeInSteps(value, 16))).toThrow(
          isReprise(error) ? error.message : '',
        )
        return
      }
      const written = run(new ValueEncoder(new Map(), defaultLimits).encodeInSteps(value, 16))
      expect(Buffer.compare(written.result, whole)).toBe(0)
      const read = run(new ValueDecoder(whole, new ReadShapes(), new Map(), defaultLimits).decodeInSteps(16))
      expect(Buffer.compare(codec.encode(read.result), whole)).toBe(0)
      if (whole.length > 1000) expect(Math.min(written.steps, read.steps)).toBeGreaterThan(2)
    }),
  )
})

test('G15: damaged bytes are refused in steps exactly where they are refused in one go', () => {
  const bytes = codec.encode({ rows: [{ a: 1 }, { a: 2 }], map: new Map([['x', [1, 2, 3]]]), many: manyKeys(40) })
  for (let at = 0; at < bytes.length; at++) {
    for (let bit = 0; bit < 8; bit++) {
      const flipped = Uint8Array.from(bytes)
      flipped[at]! ^= 1 << bit
      const one = outcome(() => codec.decode(flipped))
      expect(
        outcome(() => run(codec.decodeInSteps(flipped)).result),
        `bit ${bit} of byte ${at}`,
      ).toEqual(one)
    }
  }
})

test('A4.4: a step of a large state is a small part of it', () => {
  const rows = Array.from({ length: 20_000 }, (_, id) => ({ id, text: `row number ${id} of a large state` }))
  const state = { shape: 'value', value: { rows, byId: new Map(rows.map((row) => [row.id, { ...row }])) } }
  const written = run(codec.encodeInSteps(state))
  expect(Buffer.compare(written.result, codec.encode(state))).toBe(0)
  expect(written.steps).toBeGreaterThan(written.result.length / (128 * 1024))
  expect(run(codec.decodeInSteps(written.result)).steps).toBeGreaterThan(written.result.length / (128 * 1024))
})

function manyKeys(count: number): Record<string, number> {
  return Object.fromEntries(Array.from({ length: count }, (_, n) => [`key ${n}`, n]))
}

function outcome(work: () => unknown): string {
  try {
    return Buffer.from(codec.encode(work())).toString('hex')
  } catch (error) {
    return isReprise(error) ? error.code : 'untyped'
  }
}

test('A4.4: no step moves more than a few megabytes, however large the value has become', () => {
  const rows = Array.from({ length: 120_000 }, (_, id) => ({ id, text: `row ${id} `.repeat(8) }))
  const moved: number[] = []
  const { set, slice } = Uint8Array.prototype
  const spies = [
    vi.spyOn(Uint8Array.prototype, 'set').mockImplementation(function (this: Uint8Array, from, at) {
      moved.push(from.length)
      set.call(this, from, at)
    }),
    vi.spyOn(Uint8Array.prototype, 'slice').mockImplementation(function (this: Uint8Array, start, end) {
      moved.push((end ?? this.length) - (start ?? 0))
      return slice.call(this, start, end) as Uint8Array<ArrayBuffer>
    }),
  ]
  let [most, since] = [0, 0]
  const steps = codec.encodeInSteps({ rows })
  let encoded: Uint8Array | null = null
  while (encoded === null) {
    const step = steps.next()
    most = Math.max(
      most,
      moved.slice(since).reduce((sum, bytes) => sum + bytes, 0),
    )
    since = moved.length
    if (step.done) encoded = step.value
  }
  for (const spy of spies) spy.mockRestore()
  expect(encoded.length).toBeGreaterThan(8_000_000)
  expect(most).toBeLessThan(3_000_000)
  expect(Buffer.compare(encoded, codec.encode({ rows }))).toBe(0)
})
