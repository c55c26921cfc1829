// Mail that is sent at the very moment at which a run ends is accepted or refused: an acknowledged cancellation or signal is
// reliable.

import { setTimeout as pause } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { isReprise } from '../../src/index.ts'
import { workflow, workflows } from '../../src/layers/workflow/index.ts'
import { seeded } from '../support/seeded.ts'
import { onEveryStore } from '../support/worlds.ts'

const runs = 40

onEveryStore('mail at the end of a run', (world) => {
  it.each(['the process that runs it', 'another'])('a cancellation from %s counts, or is refused', async (from) => {
    const w = await world()
    const worker = await w.engine()
    const short = workflow('short', async (ctx) => await ctx.step('only', () => pause(1)))
    worker.work([short])
    const sender = from === 'another' ? await w.engine() : worker
    const chance = seeded(7)
    const seen = { cancelled: 0, refused: 0 }
    for (let i = 0; i < runs; i++) {
      const run = await worker.run(short, { id: `r${i}` })
      await pause(chance() * 6)
      const outcome = await workflows(sender)
        .of(short)
        .get(`r${i}`)
        .cancel()
        .then(
          () => 'cancelled' as const,
          (error) => {
            if (isReprise(error, 'ENDED')) return 'refused' as const
            throw error
          },
        )
      seen[outcome] += 1
      const status = await run.result().then(
        () => 'completed',
        (error) => error.code,
      )
      expect(`${outcome} ${status}`).toBe(outcome === 'cancelled' ? 'cancelled CANCELLED' : 'refused completed')
    }
    expect(seen.cancelled + seen.refused).toBe(runs)
  })
})
