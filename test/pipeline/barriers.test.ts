import { describe, expect, it } from 'vitest'
import { type Plant, runBarriers } from './barrier-world.ts'

const seeds = Number(process.env.REPRISE_BARRIER_SEEDS ?? 10_000)

describe('barriers and their coordinator', () => {
  it(`A3.3: give consistent cuts and exactly-once output in ${seeds} worlds of crashes, delays and losses`, () => {
    let published = 0
    let crashes = 0
    let aborted = 0
    for (let seed = 1; seed <= seeds; seed++) {
      try {
        const outcome = runBarriers(seed)
        published += outcome.published
        crashes += outcome.crashes
        aborted += outcome.aborted
      } catch (error) {
        throw new Error(`seed ${seed}: ${(error as Error).message}`, { cause: error })
      }
    }
    // The simulations must contain the tested situations.
    expect(published).toBeGreaterThan(seeds)
    expect(crashes).toBeGreaterThan(seeds / 2)
    expect(aborted).toBeGreaterThan(seeds / 2)
  }, 600_000)

  it.each<Plant>([
    'position-after-barrier',
    'no-alignment',
    'old-attempt-acknowledged',
    'commit-before-publish',
    'id-used-again',
    'prepared-forgotten',
    'unknown-discarded',
    'overtaken-lost',
    'abort-swallowed',
    'key-group-off-by-one',
  ])('would be caught with the bug %s', (plant) => {
    const found = Array.from({ length: 500 }, (_, i) => i + 1).find((seed) => {
      try {
        runBarriers(seed, plant)
        return false
      } catch (error) {
        // A world that falls over by itself proves nothing.
        if (error instanceof TypeError) throw error
        return true
      }
    })
    expect(found, `no seed of 500 found ${plant}`).toBeDefined()
  })
})
