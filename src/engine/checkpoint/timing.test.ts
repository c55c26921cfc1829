import { expect, test } from 'vitest'
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
