// Several processes on one SQLite file, with anything between any two of their statements. More of them:
// REPRISE_FILE_SEEDS=10000 npx vitest run test/simulation/file.test.ts

import { expect, test } from 'vitest'
import { runCampaign } from './campaign.mjs'
import { simulateFile } from './file-simulate.mjs'

const seeds = Number(process.env.REPRISE_FILE_SEEDS ?? 120)
const hourMs = 3_600_000

test(
  `G1, G3: what several processes on one file are told is true in ${seeds} schedules of their statements`,
  async () => {
    const { done, events, failure } = await runCampaign({ seeds, simulation: 'file', threads: 2 })
    console.log(`${done} schedules, ${events} statements apart`)
    expect(failure, failure ? `${failure.message}\nrepeat it: ${failure.command}` : '').toBeNull()
    expect(done).toBe(seeds)
    expect(events).toBeGreaterThan(100 * seeds)
  },
  hourMs,
)

// Scans of whole tables run on a thread of their own, which answers in another turn when the machine is busy. A schedule that is
// not decided by its seed differs each time.
test('the same seed gives the same schedule', { retry: 2 }, async () => {
  for (const seed of [1, 7, 42]) {
    const [once, again] = [await simulateFile(seed), await simulateFile(seed)]
    expect(again).toEqual(once)
  }
})
