// Many seeds of the simulation: several engines over one disk with crashes, power losses, lost answers, pauses, skewed
// clocks and rot. CI runs 2,500 of them and 400 of failovers, `npm run prove` more in slices. Any number:
// REPRISE_SEEDS=1000000 npx vitest run test/simulation/simulation.test.ts

import { expect, test } from 'vitest'
import { runCampaign } from './campaign.mjs'
import { simulate } from './simulate.mjs'

const seeds = Number(process.env.REPRISE_SEEDS ?? 600)
const failoverSeeds = Number(process.env.REPRISE_FAILOVER_SEEDS ?? 100)
const hourMs = 3_600_000

test(
  `G1-G5, G7-G12: no promise is broken in ${seeds} seeds`,
  async () => {
    const { done, ms, events, failure, recoveries, replay99 } = await runCampaign({ seeds, threads: 2 })
    console.log(`${done} seeds, ${events} events, ${((1000 * done) / ms).toFixed(0)} seeds/s`)
    console.log(`${recoveries} recoveries; 99 of 100 replayed at most ${replay99.toFixed(2)} intervals of their policy`)
    expect(failure, failure ? `${failure.message}\nrepeat it: ${failure.command}` : '').toBeNull()
    expect(done).toBe(seeds)
    expect(recoveries).toBeGreaterThan(seeds)
  },
  hourMs,
)

test(
  `G1-G4: no promise is broken by a store that goes back to an older copy, in ${failoverSeeds} seeds`,
  async () => {
    const { done, failure } = await runCampaign({ seeds: failoverSeeds, simulation: 'failover', threads: 2 })
    expect(failure, failure ? `${failure.message}\nrepeat it: ${failure.command}` : '').toBeNull()
    expect(done).toBe(failoverSeeds)
  },
  hourMs,
)

test('the same seed gives the same trace, event for event', async () => {
  for (const seed of [1, 7, 42, 1001, 2024]) {
    const [once, again] = [await simulate(seed), await simulate(seed)]
    expect(again.traceHash).toBe(once.traceHash)
    expect(again.events).toBe(once.events)
    expect(once.events).toBeGreaterThan(50)
  }
})

test('different seeds give different traces', async () => {
  const hashes = new Set<number>()
  for (let seed = 1; seed <= 20; seed++) hashes.add((await simulate(seed)).traceHash)
  expect(hashes.size).toBe(20)
})
