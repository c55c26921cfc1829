// Errands in a queue, claimed, ridden, undone, written to and carried elsewhere; many seeds.
// More of them: npm run simulate -- --simulation errands --seeds 10000. The bugs that it must find are in mutation.test.ts.

import { expect, test } from 'vitest'
import { simulateErrands } from './errands.mjs'

const seeds = Number(process.env.REPRISE_ERRAND_SEEDS ?? 40)

test(`G4 G5: in ${seeds} seeds every errand is done once, undone last first, and carried whole`, async () => {
  for (let seed = 1; seed <= seeds; seed++) {
    const { violation } = await simulateErrands(seed)
    const repeat = `npm run simulate -- --simulation errands --seeds 1 --from ${seed} --verbose`
    expect(violation, `seed ${seed}: ${repeat}`).toBeNull()
  }
}, 3_600_000)

test('the same seed gives the same events', async () => {
  expect(await simulateErrands(7)).toEqual(await simulateErrands(7))
})
