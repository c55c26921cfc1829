import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Digest, OperationId } from '../../../core/coordinate.ts'
import { appendOperation } from '../../../core/history/entry-run.ts'
import { hash, utf8 } from '../../../testing/conformance/kit.ts'
import {
  compactRow,
  emptyRowBytes,
  type FrameDraft,
  findFrame,
  isAsCommitted,
  isEmptyRow,
  joinedBefore,
  joinedRow,
  RowEncoder,
  readFrames,
  unsettledTime,
} from './log-row.ts'

const position = 1000

const operation = (digest: Uint8Array) => fc.constantFrom(appendOperation(digest as Digest), 'another' as OperationId)
const draft: fc.Arbitrary<FrameDraft> = fc
  .record({
    tid: fc.integer({ min: 1, max: 2 ** 40 }),
    previous: fc.integer({ min: 0, max: position }),
    before: fc.constant(hash(utf8('before'))),
    run: fc.record({
      first: fc.integer({ min: 1, max: 2 ** 40 }),
      count: fc.integer({ min: 1, max: 5000 }),
      digest: fc.uint8Array({ minLength: 32, maxLength: 32 }),
      bytes: fc.uint8Array({ minLength: 1, maxLength: 300 }),
    }),
  })
  .chain((one) => operation(one.run.digest).map((id) => ({ ...one, operation: id })))
const drafts = fc.uniqueArray(draft, { selector: ({ tid }) => tid, minLength: 1, maxLength: 6 })
const unsettledAt = fc.option(fc.integer({ min: 0, max: 2 ** 45 }))

function encode(given: readonly FrameDraft[], time: number | null, hasDigests = true): Uint8Array {
  return new RowEncoder().encode(position, given, time, () => hasDigests)
}

describe('a row of the log', () => {
  it('that replaces others counts them, holds nothing, and every changed byte of it is detected', () => {
    const places = fc
      .integer({ min: 2, max: 2 ** 45 })
      .chain((at) => fc.tuple(fc.constant(at), fc.integer({ min: 1, max: at - 1 })))
    fc.assert(
      fc.property(places, fc.nat(), fc.integer({ min: 1, max: 255 }), ([at, count], which, change) => {
        const body = joinedRow(at, count)
        expect([joinedBefore(at, body), isEmptyRow(body), isAsCommitted(body), unsettledTime(at, body)]).toEqual([
          ...[count, true, false, null],
        ])
        expect([...readFrames(at, body)]).toEqual([])
        expect(body.length).toBeLessThanOrEqual(32)
        const changed = body.slice()
        changed[which % body.length]! ^= change
        expect(() => {
          const [frames, before] = [[...readFrames(at, changed)], joinedBefore(at, changed)]
          // Its first byte may turn it into another kind of row; then it has frames, or represents no other row.
          if (frames.length === 0 && before !== count) throw new Error('it stands for others, or for nobody')
        }).toThrow()
      }),
    )
  })

  it('returns the stored values, with explicit digests where they were written', () => {
    fc.assert(
      fc.property(drafts, fc.boolean(), unsettledAt, (given, hasDigests, time) => {
        const body = encode(given, time, hasDigests)
        const expected = given.map(({ tid, previous, run, operation: id }) => ({
          tid,
          first: run.first,
          last: run.first + run.count - 1,
          previous,
          digest: hasDigests ? run.digest : null,
          operation: time === null || id === appendOperation(run.digest) ? null : id,
          bytes: run.bytes,
        }))
        expect([...readFrames(position, body)]).toEqual(expected)
        for (const frame of expected) expect(findFrame(position, body, frame.tid, frame.last)).toEqual(frame)
        expect(isAsCommitted(body)).toBe(true)
        expect(unsettledTime(position, body)).toBe(time)
      }),
    )
  })

  it('G7: any flipped bit is found, and so is a row in another place', () => {
    fc.assert(
      fc.property(drafts, unsettledAt, fc.nat(), fc.integer({ min: 0, max: 7 }), (given, time, place, bit) => {
        const body = encode(given, time).slice()
        expect(() => [...readFrames(position + 1, body)]).toThrow()
        body[place % body.length]! ^= 1 << bit
        const read = () => [...readFrames(position, body)]
        expect(read).toThrow()
      }),
    )
  })

  it('G7: no other first byte makes a settled row of a loose one, nor the other way round', () => {
    fc.assert(
      fc.property(drafts, unsettledAt, fc.integer({ min: 0, max: 255 }), (given, time, kind) => {
        const body = encode(given, time).slice()
        fc.pre(body[0] !== kind)
        body[0] = kind
        expect(() => [...readFrames(position, body)]).toThrow()
      }),
    )
  })

  it('keeps the frames that live, and is empty when none does', () => {
    fc.assert(
      fc.property(drafts, unsettledAt, fc.boolean(), fc.nat(), (given, time, hasDigests, seed) => {
        const body = encode(given, time, hasDigests)
        const lives = (tid: number) => (tid + seed) % 2 === 0
        const rest = compactRow(position, body, ({ tid }) => lives(tid))
        const kept = [...readFrames(position, body)].filter(({ tid }) => lives(tid))
        const expected = kept.map((frame) => ({ ...frame, operation: null }))
        expect([...readFrames(position, rest)]).toEqual(expected)
        expect(rest.length === emptyRowBytes).toBe(expected.length === 0)
        expect(unsettledTime(position, rest)).toBe(null)
        expect(isAsCommitted(rest)).toBe(false)
      }),
    )
  })
})
