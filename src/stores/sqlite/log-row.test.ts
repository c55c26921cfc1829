import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { hash, utf8 } from '../../testing/conformance-kit.ts'
import { compactRow, encodeRow, type FrameDraft, findFrame, isAsCommitted, readFrames } from './log-row.ts'

const position = 1000

const draft: fc.Arbitrary<FrameDraft> = fc.record({
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
const drafts = fc.uniqueArray(draft, { selector: ({ tid }) => tid, minLength: 1, maxLength: 6 })

describe('a row of the log', () => {
  it('gives back what was put in, digests where they were spelled out', () => {
    fc.assert(
      fc.property(drafts, fc.boolean(), (given, hasDigests) => {
        const body = encodeRow(position, given, () => hasDigests)
        const expected = given.map(({ tid, previous, run }) => ({
          tid,
          first: run.first,
          last: run.first + run.count - 1,
          previous,
          digest: hasDigests ? run.digest : null,
          bytes: run.bytes,
        }))
        expect([...readFrames(position, body)]).toEqual(expected)
        for (const frame of expected) expect(findFrame(position, body, frame.tid, frame.last)).toEqual(frame)
        expect(isAsCommitted(body)).toBe(true)
      }),
    )
  })

  it('G7: any flipped bit is found, and so is a row in another place', () => {
    fc.assert(
      fc.property(drafts, fc.nat(), fc.integer({ min: 0, max: 7 }), (given, place, bit) => {
        const body = encodeRow(position, given, () => true).slice()
        expect(() => [...readFrames(position + 1, body)]).toThrow()
        body[place % body.length]! ^= 1 << bit
        const read = () => [...readFrames(position, body)]
        // Only the mark of a compacted row (1 and 2 differ in two bits) could pass, and one bit does not make it.
        expect(read).toThrow()
      }),
    )
  })

  it('keeps the frames that live, byte for byte, and is empty when none does', () => {
    fc.assert(
      fc.property(drafts, fc.nat(), (given, seed) => {
        const body = encodeRow(position, given, () => true)
        const lives = (tid: number) => (tid + seed) % 2 === 0
        const rest = compactRow(position, body, ({ tid }) => lives(tid))
        const expected = [...readFrames(position, body)].filter(({ tid }) => lives(tid))
        expect([...readFrames(position, rest)]).toEqual(expected)
        expect(rest.length === 0).toBe(expected.length === 0)
        expect(isAsCommitted(rest)).toBe(false)
      }),
    )
  })
})
