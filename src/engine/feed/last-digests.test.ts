import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Digest, timelineId } from '../../core/coordinate.ts'
import { LastDigests } from './last-digests.ts'

const digestOf = (n: number) => new Uint8Array(32).fill(n) as Digest

describe('the last digests', () => {
  it('are those of a map that loses the timeline seen longest ago', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 200 }), fc.array(fc.nat(255), { maxLength: 600 }), (max, seen) => {
        const ours = new LastDigests(max)
        const model = new Map<string, number>()
        for (const [seq, n] of seen.entries()) {
          const id = timelineId(`t/${n}`)
          const oldest = !model.has(id) && model.size === max ? [...model.keys()][0] : undefined
          if (oldest !== undefined) model.delete(oldest)
          model.delete(id)
          model.set(id, seq)
          expect(ours.set(id, { seq, digest: digestOf(n) })).toBe(oldest)
        }
        for (let n = 0; n < 256; n++) {
          const seq = model.get(`t/${n}`)
          const expected = seq === undefined ? undefined : { seq, digest: digestOf(n) }
          expect(ours.get(timelineId(`t/${n}`))).toEqual(expected)
        }
      }),
    )
  })
})
