import { expect, test } from 'vitest'
import { seeded } from '../../../test/support/seeded.ts'
import { systemClock } from '../base/platform.ts'
import { CheckpointTiming } from './timing.ts'

/**
 * Appends one entry after another; each checkpoint is published `during` appends after its capture. Returns the largest
 * number of entries that were ever behind.
 */
function mostBehind(every: number, during: number): number {
  const timing = new CheckpointTiming(systemClock, { every }, {}, Date.now)
  timing.recovered({ openMs: null, restore: null, entries: 0, replayMs: null, ageMs: 0 })
  let capture: ReturnType<CheckpointTiming['mark']> | null = null
  let readyAt = 0
  let most = 0
  for (let n = 1; n <= 20 * every; n++) {
    const isNear = timing.wrote(1, 100)
    // A crash here replays these entries. The first checkpoint measures how many entries arrive while it is written.
    if (n > 2 * every) most = Math.max(most, timing.entries)
    if (capture && readyAt === n) {
      timing.published(capture, { ms: 1, bytes: 1, stallMs: 0 })
      capture = null
    } else if (!capture && isNear && timing.decide().isDue) {
      capture = timing.mark()
      readyAt = n + during
    }
  }
  return most
}

test.each([
  [12, 1],
  [12, 4],
  [100, 30],
  [100, 45],
])(
  'G9: every %i entries, %i of which come while a checkpoint is written: no more than one interval is replayed',
  (every, during) => {
    expect(mostBehind(every, during)).toBeLessThanOrEqual(every)
  },
)

test('G9: where more than half an interval comes meanwhile, one checkpoint follows the other', () => {
  expect(mostBehind(100, 80)).toBeLessThanOrEqual(2 * 80 + 1)
})

/**
 * Commits of random sizes; each checkpoint is published a random number of entries after its capture, up to a quarter of
 * the interval. Returns, for a process killed after each of its commits, the entries to replay as a share of the interval.
 */
function sharesBehind(seed: number): number[] {
  const random = seeded(seed)
  const every = 50 + Math.floor(random() * 1000)
  const timing = new CheckpointTiming(systemClock, { every }, {}, Date.now)
  timing.recovered({ openMs: null, restore: null, entries: 0, replayMs: null, ageMs: 0 })
  let capture: ReturnType<CheckpointTiming['mark']> | null = null
  let [written, readyAt, published] = [0, 0, 0]
  const shares: number[] = []
  while (published < 60) {
    const size = 1 + Math.floor(random() * (every / 16))
    const isNear = timing.wrote(size, 100)
    written += size
    if (capture && written >= readyAt) {
      timing.published(capture, { ms: 1, bytes: 1, stallMs: 0 })
      capture = null
      published += 1
    } else if (!capture && isNear && timing.decide().isDue) {
      capture = timing.mark()
      readyAt = written + random() * (every / 4)
    }
    // The first checkpoints of a process measure how many entries arrive meanwhile.
    if (published >= 4) shares.push(timing.entries / every)
  }
  return shares
}

test('G9: with commits and checkpoints of any size, 99 of 100 kills replay at most one interval', () => {
  for (let seed = 1; seed <= 50; seed++) {
    const shares = sharesBehind(seed).sort((a, b) => a - b)
    expect(shares[Math.floor(shares.length * 0.99)], `seed ${seed}`).toBeLessThanOrEqual(1)
  }
})
