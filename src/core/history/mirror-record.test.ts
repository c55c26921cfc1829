import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { TimelineId } from '../coordinate.ts'
import { encodeRecord, type MirrorRecord, scanRecords } from './mirror-record.ts'

const sha256 = (bytes: Uint8Array) => new Uint8Array(createHash('sha256').update(bytes).digest())

const anyRecord: fc.Arbitrary<MirrorRecord> = fc.oneof(
  fc.record({
    kind: fc.constant('run' as const),
    timeline: fc.string({ minLength: 1, maxLength: 8 }) as unknown as fc.Arbitrary<TimelineId>,
    run: fc.record({
      first: fc.integer({ min: 1, max: 1e6 }),
      count: fc.integer({ min: 1, max: 50 }),
      digest: fc.uint8Array({ minLength: 32, maxLength: 32 }),
      // Entry bytes may be anything, including the mark of a record.
      bytes: fc.oneof(fc.uint8Array({ maxLength: 60 }), fc.constant(new Uint8Array([255, 0x52, 0x50, 1, 9, 0, 0, 0]))),
    }),
  }),
  fc.record({ kind: fc.constant('position' as const), position: fc.string({ maxLength: 12 }) }),
  fc.record({ kind: fc.constant('start' as const), sign: fc.string({ maxLength: 12 }) }),
)

function written(records: readonly MirrorRecord[]) {
  const parts = records.map((record) => encodeRecord(sha256, record))
  const starts = parts.map((_, i) => parts.slice(0, i).reduce((sum, part) => sum + part.length, 0))
  return { bytes: new Uint8Array(Buffer.concat(parts)), starts, parts }
}

const given = (bytes: Uint8Array) => scanRecords(sha256, bytes).records.map(({ record }) => record)

describe('the file of a mirror', () => {
  it('returns the written records, with nothing lost', () => {
    fc.assert(
      fc.property(fc.array(anyRecord, { maxLength: 8 }), (records) => {
        const { bytes } = written(records)
        expect(scanRecords(sha256, bytes)).toMatchObject({ lostBytes: 0, tornBytes: 0 })
        expect(given(bytes)).toEqual(records)
      }),
    )
  })

  it('cut off anywhere and appended to again, loses the record that was cut and no other', () => {
    const anyCut = fc.tuple(
      fc.array(anyRecord, { minLength: 1, maxLength: 6 }),
      fc.array(anyRecord, { maxLength: 4 }),
      fc.nat(),
    )
    fc.assert(
      fc.property(anyCut, ([before, after, at]) => {
        const { bytes, starts, parts } = written(before)
        const cut = at % (bytes.length + 1)
        const whole = before.filter((_, i) => starts[i]! + parts[i]!.length <= cut)
        const file = new Uint8Array(Buffer.concat([bytes.subarray(0, cut), written(after).bytes]))
        expect(given(file)).toEqual([...whole, ...after])
      }),
      { numRuns: 300 },
    )
  })

  it('damaged anywhere, loses only records that the damage touches, and makes up none', () => {
    const anyDamage = fc.tuple(
      fc.array(anyRecord, { minLength: 1, maxLength: 6 }),
      fc.nat(),
      fc.uint8Array({ minLength: 1, maxLength: 40 }),
    )
    fc.assert(
      fc.property(anyDamage, ([records, at, garbage]) => {
        const { bytes, starts, parts } = written(records)
        const from = at % bytes.length
        const damaged = bytes.slice()
        damaged.set(garbage.subarray(0, bytes.length - from), from)
        const to = Math.min(bytes.length, from + garbage.length)
        const isTouched = records.map((_, i) => starts[i]! < to && starts[i]! + parts[i]!.length > from)
        const isSame = bytes.every((byte, i) => damaged[i] === byte)
        const found = given(damaged)
        const untouched = records.filter((_, i) => isSame || !isTouched[i])
        expect(found.filter((record) => untouched.some((each) => same(each, record))).length).toBeGreaterThanOrEqual(
          untouched.length,
        )
        for (const record of found) expect(records.some((each) => same(each, record))).toBe(true)
      }),
      { numRuns: 300 },
    )
  })
})

function same(a: MirrorRecord, b: MirrorRecord): boolean {
  return Buffer.from(encodeRecord(sha256, a)).equals(encodeRecord(sha256, b))
}
