// Workflows over three shards that come and go, in virtual time. More seeds: REPRISE_SHARD_SEEDS=2000 npx vitest run
// test/simulation/shards.test.ts; one of them: npm run simulate -- --seeds 1 --from 47 --simulation shards --verbose

import { expect, test } from 'vitest'
import { simulateShards } from './shards.mjs'

const seeds = Number(process.env.REPRISE_SHARD_SEEDS ?? 20)

test(`G1, G3, G4: shards come and go: nothing is lost, doubled or stuck in ${seeds} seeds, and others go on`, async () => {
  let ended = 0
  for (let seed = 1; seed <= seeds; seed++) {
    const { violation, endedWhileAway } = await simulateShards(seed)
    expect(violation, `seed ${seed}: ${violation?.message}`).toBeNull()
    ended += endedWhileAway
  }
  expect(ended).toBeGreaterThan(seeds / 4)
}, 3_600_000)

// 1: a parent failed for good when the shard of its child did not answer in time. 47: a queue stayed with a worker that ignored
// it, because its shard returned in the middle of the worker's search for lost timelines.
test.each([1, 47])('G4: seed %i, which found a bug', async (seed) => {
  expect((await simulateShards(seed)).violation).toBeNull()
})
