// Replicas of one service that command one aggregate, many seeds, and the bugs that they must find.
// More of them: REPRISE_REPLICA_SEEDS=10000 npx vitest run test/simulation/replicas.test.ts

import { expect, test } from 'vitest'
import { simulateReplicas } from './replicas.mjs'

const seeds = Number(process.env.REPRISE_REPLICA_SEEDS ?? 100)
const hourMs = 3_600_000

test(
  `C6 G4: in ${seeds} seeds every command is decided on the state before it, once, and nobody is told of a fence`,
  async () => {
    let [commands, refusals, displaced] = [0, 0, 0]
    for (let seed = 1; seed <= seeds; seed++) {
      const report = await simulateReplicas(seed)
      expect(report.violation, `seed ${seed}`).toBeNull()
      commands += report.commands
      refusals += report.refusals
      displaced += report.displaced
    }
    // Otherwise nothing was contended, and nothing was shown.
    expect(displaced).toBeGreaterThan(seeds)
    expect(refusals).toBeGreaterThan(seeds)
    expect(commands).toBeGreaterThan(20 * seeds)
  },
  hourMs,
)

test.each([
  ['stale-decision', 20],
  ['append-without-guard', 20],
  ['no-nonce', 600],
])('finds "%s" within %i seeds', { timeout: hourMs }, async (plant, seedsMax) => {
  for (let seed = 1; seed <= seedsMax; seed++) {
    const { violation } = await simulateReplicas(seed, { plant })
    if (violation === null) continue
    console.log(`${plant}: seed ${seed}: ${violation.split('\n')[0]}`)
    return
  }
  expect.fail(`${plant} got through`)
})

test('the same seed gives the same events', async () => {
  for (const seed of [1, 7, 42]) expect(await simulateReplicas(seed)).toEqual(await simulateReplicas(seed))
})
