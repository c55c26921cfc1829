// Bounded history (B5): a loop's replay starts at its last boundary, and what lies below the checkpoints is gone.

import { expect, it } from 'vitest'
import { workflow } from '../../src/layers/workflow/index.ts'
import { onEveryStore } from '../support/worlds.ts'

onEveryStore(
  'an endless loop',
  (world) => {
    it('recovers from its last boundary however long it ran, with history trimmed and early outcomes kept', async () => {
      const place = await world()
      const calls: string[] = []
      const forever = workflow(
        'forever',
        async (ctx, input: { to: number }) => {
          const first = await ctx.step('first', () => calls.push('first'))
          return await ctx.loop({ n: 0, sum: 0 }, async ({ n, sum }, own) => {
            if (n === input.to) return own.stop({ first, sum })
            if (n === input.to - 1) await own.signal('go')
            const add = await own.step('add', ({ key }) => {
              calls.push(key)
              return n
            })
            return { n: n + 1, sum: sum + add }
          })
        },
        { checkpointEvery: 50 },
      )
      const rp = await place.engine()
      const run = await rp.run(forever, { to: 150 }, { id: 'f' })
      while (calls.length < 150) await new Promise((resolve) => setTimeout(resolve, 10))
      await rp.close()
      const later = await place.engine()
      later.events.on('recovered', ({ timeline, report }) => {
        if (timeline === run.timeline) reports.push(report.entriesReplayed)
      })
      const reports: number[] = []
      const head = await later.head(run.timeline)
      expect(head!.seq).toBeGreaterThan(290)
      expect(head!.floor).toBeGreaterThan(100)
      const again = await later.run(forever, { to: 150 }, { id: 'f' })
      await again.signal('go')
      expect(await again.result()).toEqual({ first: 1, sum: (149 * 150) / 2 })
      expect(reports[0]).toBeLessThan(120)
      expect(new Set(calls).size).toBe(151)
      expect(calls.length).toBeLessThanOrEqual(152)
    })
  },
  ['memory', 'sqlite'],
)
