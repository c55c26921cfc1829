// Several processes on one SQLite file, with anything between any two of their statements. More of them:
// REPRISE_FILE_SEEDS=10000 npx vitest run test/simulation/file.test.ts

import { expect, test } from 'vitest'
import { runCampaign } from './campaign.mjs'
import { simulateFile } from './file-simulate.mjs'

const seeds = Number(process.env.REPRISE_FILE_SEEDS ?? 50)
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

test('the same seed gives the same schedule, on a slow machine too', async () => {
  const cell = new Int32Array(new SharedArrayBuffer(4))
  for (const seed of [1, 7, 42]) {
    const [once, again] = [await simulateFile(seed), await simulateFile(seed)]
    expect(again).toEqual(once)
  }
  // Seed 42 inspects a file of several pages, and an inspection slows down by the clock.
  const slow = await simulateFile(42, { beforeStatement: () => Atomics.wait(cell, 0, 0, 10) })
  expect(slow).toEqual(await simulateFile(42))
})
