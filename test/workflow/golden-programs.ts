// Workflows whose recorded histories are kept under test/golden and replayed for good. They never change: a new behaviour
// gets a new program here and a new recording.

import { type WorkflowContext, workflow } from '../../src/layers/workflow/index.ts'

const add = (n: number) => async (ctx: WorkflowContext) => await ctx.step('add', () => n)

export const sequence = workflow('golden-sequence', async (ctx, input: { n: number }) => {
  const a = await ctx.step('a', () => input.n, { compensate: () => undefined })
  await ctx.sleep('1h')
  const b = await ctx.signal<number>('b')
  const c = await ctx.signal('c', { timeout: '1d', otherwise: 5 })
  return { a, b, c, at: new Date().toISOString(), map: new Map([[1, a]]) }
})

export const branches = workflow('golden-branches', async (ctx) => {
  const both = await ctx.parallel({ one: add(1), two: add(2) })
  const first = await ctx.race<unknown>([
    async (own) => await own.sleep('2h'),
    async (own) => await own.step('quick', () => 'q'),
  ])
  const all = await Promise.all([ctx.step('x', () => 1), ctx.step('x', () => 2)])
  return { both, first, all, patched: ctx.patch('new'), chance: ctx.random(), id: ctx.uuid() }
})

export const saga = workflow('golden-saga', async (ctx) => {
  await ctx.step('hotel', () => 'h', { compensate: () => undefined })
  await ctx.step('flight', () => 'f', { compensate: () => undefined })
  await ctx
    .step('car', () => {
      throw new RangeError('no car')
    })
    .catch(async (error: Error) => {
      await ctx.step('note', () => error.message)
      throw error
    })
})

export const child = workflow('golden-child', async (ctx, n: number) => {
  await ctx.sleep('1m')
  return n * 2
})

export const family = workflow('golden-family', async (ctx) => {
  const result = await ctx.child(child, 21)
  const sum = await ctx.loop({ n: 0, sum: 0 }, async ({ n, sum: so }, own) => {
    if (n === 3) return own.stop(so)
    return { n: n + 1, sum: so + (await own.step('add', () => n)) }
  })
  return { result, sum }
})

export const programs = [sequence, branches, saga, child, family]
