import { expect, it } from 'vitest'
import { type Plant, runStages } from './stage-world.ts'

const seeds = Number(process.env.REPRISE_STAGE_SEEDS ?? 25)

it(`A3.3: tasks, channels and barriers of threads lose and double nothing in ${seeds} worlds of delays, crashes and rescalings`, () => {
  const sum = { published: 0, crashes: 0, aborted: 0, full: 0 }
  for (let seed = 1; seed <= seeds; seed++) {
    try {
      const outcome = runStages(seed)
      for (const name of ['published', 'crashes', 'aborted', 'full'] as const) sum[name] += outcome[name]
    } catch (error) {
      throw new Error(`seed ${seed}: ${(error as Error).message}`, { cause: error })
    }
  }
  // The worlds must contain the tested situations.
  for (const count of Object.values(sum)) expect(count).toBeGreaterThan(seeds / 2)
}, 600_000)

it.each<Plant>([
  'barrier-overtakes-frames',
  'position-after-barrier',
  'captured-late',
  'frame-lost',
  'frame-doubled',
  'frames-swapped',
  'credit-lost',
  'letters-cut-late',
  'results-cut-late',
  'key-to-another-instance',
])(
  'would be caught with the fault %s',
  (plant) => {
    const found = Array.from({ length: 60 }, (_, i) => i + 1).find((seed) => {
      try {
        runStages(seed, plant)
        return false
      } catch (error) {
        // A world that falls over by itself proves nothing.
        if (error instanceof TypeError) throw error
        return true
      }
    })
    expect(found, `no seed of 60 found ${plant}`).toBeDefined()
  },
  600_000,
)
