// Bounded history (B5): a loop's replay starts at its last boundary, and history below the checkpoints is gone.

import { expect, it } from 'vitest'
import { checkDefinitions, workflow } from '../../src/layers/workflow/index.ts'
import { WorkflowKit } from '../../src/testing/index.ts'
import { until } from '../support/fixture.ts'
import { onEveryStore } from '../support/worlds.ts'

onEveryStore(
  'B5: an endless loop',
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
        { checkpoint: { every: 50 } },
      )
      const rp = await place.engine()
      const run = await rp.run(forever, { to: 150 }, { id: 'f' })
      await until(() => calls.length >= 150)
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

// Found by the random programs: the outcome that the cancellation met inside an iteration is gone once the loop continued.
it('a loop that catches its cancellation and continues does so in every replay', async () => {
  const kit = new WorkflowKit()
  const stubborn = workflow('stubborn', async (ctx) => {
    return await ctx.loop({ n: 0, said: '' }, async ({ n, said }, own) => {
      if (n === 3) return own.stop(said)
      const told = await own.signal('never', { timeout: '30d' }).then(
        () => '',
        (error: Error) => error.message,
      )
      return { n: n + 1, said: said + told }
    })
  })
  const run = await kit.run(stubborn, { id: 's' })
  await kit.advance('1h')
  await kit.survive(() => kit.handle(run).cancel({ reason: 'enough' }))
  await kit.advance('1h')
  kit.crash()
  expect(await kit.result(run)).toContain('enough')
  expect((await checkDefinitions(kit.rp, [stubborn], { ended: true })).diverging).toEqual([])
  await kit.close()
})

it('a loop that is cancelled between two iterations ends, wherever its process dies', async () => {
  for (let commit = 1; commit < 12; commit++) {
    const kit = new WorkflowKit({ crashAt: [{ commit, when: commit % 2 === 0 ? 'before' : 'after' }] })
    const busy = workflow('busy', async (ctx) => {
      // Nothing to wait for but the boundaries themselves.
      return await ctx.loop(0, async (n, own) => (n === 100_000 ? own.stop(n) : n + 1))
    })
    const run = await kit.run(busy, { id: 'b' })
    await kit.survive(() =>
      kit
        .handle(run)
        .cancel({ reason: 'enough' })
        .catch(() => undefined),
    )
    await expect(kit.result(run)).rejects.toThrow('enough')
    expect((await kit.handle(run).status()).status).toBe('cancelled')
    expect((await checkDefinitions(kit.rp, [busy], { ended: true })).diverging).toEqual([])
    await kit.close()
  }
})
