import fc from 'fast-check'
import { expect, it } from 'vitest'
import { allotment, RateLimiter } from './rate.ts'

/** Starts calls as soon as the limiter allows them, as the item runner does, and returns their times. */
function startsOf(limiter: RateLimiter, until: number, from = 0): number[] {
  const starts: number[] = []
  for (let now = from; now <= until; ) {
    const pause = limiter.tryStart(now)
    if (pause === 0) starts.push(now)
    else now += pause
  }
  return starts
}

function expectWithin(starts: readonly number[], max: number, per: number): void {
  const sorted = [...starts].sort((a, b) => a - b)
  for (let i = max; i < sorted.length; i++) expect(sorted[i]! - sorted[i - max]!).toBeGreaterThanOrEqual(per)
}

const max = fc.integer({ min: 1, max: 40 })

it('allows at most max starts in any window, and reaches that number', () => {
  fc.assert(
    fc.property(max, fc.integer({ min: 10, max: 5000 }), (most, per) => {
      const limiter = new RateLimiter(per)
      limiter.allow(most, null)
      const starts = startsOf(limiter, per * 5)
      expectWithin(starts, most, per)
      expect(starts.length).toBe(most * 6)
    }),
  )
})

it('processes that divide the shards among them stay within the limit together', () => {
  const owners = fc.array(fc.integer({ min: 0, max: 3 }), { minLength: 1, maxLength: 12 })
  fc.assert(
    fc.property(max, owners, (most, ownerOf) => {
      const shares = [0, 1, 2, 3].map((owner) =>
        ownerOf.reduce((sum, each, rank) => sum + (each === owner ? allotment(most, rank, ownerOf.length) : 0), 0),
      )
      expect(shares.reduce((sum, share) => sum + share, 0)).toBe(most)
      const all = shares.flatMap((share) => {
        const limiter = new RateLimiter(1000)
        limiter.allow(share, null)
        return startsOf(limiter, 5000)
      })
      expectWithin(all, most, 1000)
    }),
  )
})

it('stays within the limit while shares move from one process to another', () => {
  fc.assert(
    fc.property(
      max,
      fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { minLength: 1, maxLength: 6 }),
      (most, moves) => {
        const pair = [new RateLimiter(1000), new RateLimiter(1000)] as const
        pair[0].allow(most, null)
        const all = startsOf(pair[0], 300)
        let now = 301
        for (const part of moves) {
          const own = Math.floor(most * part)
          // The limiter that loses allowance is changed first.
          pair[0].allow(own, now)
          pair[1].allow(most - own, now)
          all.push(...startsOf(pair[0], now + 700, now), ...startsOf(pair[1], now + 700, now))
          now += 701
        }
        expectWithin(all, most, 1000)
      },
    ),
  )
})

it('starts nothing without an allowance', () => {
  expect(new RateLimiter(250).tryStart(0)).toBe(250)
})

it('stays within the limit although a process learns late that its share shrank', () => {
  fc.assert(
    fc.property(max, fc.integer({ min: 0, max: 900 }), fc.integer({ min: 10, max: 2000 }), (most, lateMs, per) => {
      const pair = [new RateLimiter(per), new RateLimiter(per)] as const
      pair[0].allow(most, null)
      const all = startsOf(pair[0], 300)
      // The new owner starts at 301; the old one keeps using its allowance until it learns of the change.
      pair[1].allow(most, 301 + 1000)
      all.push(...startsOf(pair[0], 301 + lateMs, 301))
      pair[0].allow(0, 301 + lateMs)
      all.push(...startsOf(pair[1], 301 + 4 * per + 1000, 301))
      expectWithin(all, most, per)
    }),
  )
})
