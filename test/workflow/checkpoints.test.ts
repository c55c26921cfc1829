// A checkpoint policy for each workflow (A4.2, C1): by count, by time, by budget, by milestone, by hand, and any mix.

import { expect, it } from 'vitest'
import { storedPolicyOf } from '../../src/engine/checkpoint/stored-policy.ts'
import { type WorkflowContext, type WorkflowOptions, workflow } from '../../src/layers/workflow/index.ts'
import { hostOf } from '../support/host.ts'
import { kitWith } from './kits.ts'

const steps = async (ctx: WorkflowContext) => {
  for (let i = 0; i < 30; i++) await ctx.step(`step ${i % 3}`, () => i)
  await ctx.step('charge', () => 'paid')
  await ctx.signal('end')
}

/** The triggers of the checkpoints of a run, the first one first, and the number of entries that the next process replayed. */
async function triggers(options: WorkflowOptions, code = steps): Promise<{ triggers: string[]; replayed: number }> {
  const kit = kitWith()
  const definition = workflow('many', code, options)
  const run = await kit.run(definition, { id: '1' })
  await kit.advance('10s')
  const found = await kit.survive((rp) => rp.checkpoints(run.timeline))
  const { recovery } = await kit.survive((rp) =>
    hostOf(rp).openTimeline(run.timeline as never, plainFold, { takeover: true }),
  )
  return { triggers: found.map(({ trigger }) => trigger).reverse(), replayed: recovery.entriesReplayed }
}

const slow = async (ctx: WorkflowContext) => {
  for (let i = 0; i < 40; i++) await ctx.sleep('90ms')
  await ctx.signal('end')
}

const plainFold = { version: 'workflow-1', initial: () => ({}), apply: () => undefined }

it('without a policy a short run has none', async () => {
  expect((await triggers({})).triggers).toEqual([])
})

it('by count', async () => {
  const { triggers: found, replayed } = await triggers({ checkpoint: { every: 10 } })
  expect(found.length).toBeGreaterThanOrEqual(2)
  expect(new Set(found)).toEqual(new Set(['count']))
  expect(replayed).toBeLessThan(20)
})

it('by a milestone: after a step of that name, in whatever branch', async () => {
  expect((await triggers({ checkpoint: { on: ['charge'] } })).triggers).toEqual(['event'])
  const inBranch = async (ctx: WorkflowContext) => {
    await ctx.parallel({ a: (own) => own.step('charge', () => 1), b: (own) => own.step('mail', () => 2) })
    await ctx.signal('end')
  }
  expect((await triggers({ checkpoint: { on: ['charge'] } }, inBranch)).triggers).toEqual(['event'])
})

it('by time, while the run is in memory', async () => {
  const { triggers: found } = await triggers({ checkpoint: { each: '1s' } }, slow)
  expect(found.length).toBeGreaterThanOrEqual(2)
  expect(new Set(found)).toEqual(new Set(['time']))
})

it('by what recovery may cost', async () => {
  expect((await triggers({ checkpoint: { recoverWithin: '1ms' } }, slow)).triggers).toContain('budget')
})

it('a mix: the first that fires', async () => {
  const { triggers: found } = await triggers({ checkpoint: { every: 12, on: ['charge'] } })
  expect(new Set(found)).toEqual(new Set(['count', 'event']))
})

it('keeps the configured number', async () => {
  const { triggers: found } = await triggers({ checkpoint: { every: 5 }, retain: { checkpoints: 4, history: 'all' } })
  expect(found.length).toBe(4)
})

it('a policy that makes no sense is refused where it is declared', () => {
  expect(() => workflow('bad', steps, { checkpoint: { every: 0 } })).toThrow(/every/)
  expect(() => workflow('bad', steps, { checkpoint: { each: 'soon' as never } })).toThrow(/each/)
})

it('is stored with the run, so that tools without the code keep to it', async () => {
  const kit = kitWith()
  const definition = workflow('kept', steps, { checkpoint: { every: 5 }, retain: { checkpoints: 4, history: 'all' } })
  const run = await kit.run(definition, { id: '1' })
  await kit.advance('10s')
  const head = await kit.survive((rp) => rp.head(run.timeline))
  expect(storedPolicyOf(head!.attributes)).toEqual({
    kind: 'workflow',
    checkpoint: { every: 5 },
    retain: { checkpoints: 4, history: 'all' },
  })
})
