// The mutation gate: every bug that is planted on purpose must be found by the simulation within its budget of seeds. If
// one gets through, the alarm is broken, and a green simulation means nothing.

import { expect, test } from 'vitest'
import { runCampaign } from './campaign.mjs'
import { plants } from './plants.mjs'

const hourMs = 3_600_000

for (const [plant, { seedsMax, foundAt, in: where }] of Object.entries(plants)) {
  test(
    `the simulation finds "${plant}", planted in the ${where}, within ${seedsMax} seeds`,
    async () => {
      const { failure } = await runCampaign({ seeds: seedsMax, first: foundAt, plant, threads: 1 })
      if (failure) console.log(`${plant}: seed ${failure.seed}: ${failure.message.split('\n')[0]}`)
      expect(failure).not.toBeNull()
      // The simulation's own mistake finds nothing.
      expect(failure!.message).not.toMatch(/^BUG/)
    },
    hourMs,
  )
}
