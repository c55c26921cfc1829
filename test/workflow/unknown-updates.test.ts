// Updates without a handler in the code: the process that executes the run refuses them, also for callers without its code; a
// run that has not reached its handlers keeps them; and a refused update is not found by a later handler.

import { describe, expect, it } from 'vitest'
import { workflow } from '../../src/layers/workflow/index.ts'
import { runOf, runWithCode } from '../../src/operations/runs.ts'
import { at, startServer } from '../server/support.ts'
import { newGate } from '../support/fixture.ts'
import { onEveryStore } from '../support/worlds.ts'
import { kitWith } from './kits.ts'

/** Never waited for to its end. */
const timeout = '1h'

function gated() {
  const { opened: promise, open: resolve } = newGate()
  return { promise, resolve }
}

const cart = workflow('cart', async (ctx) => {
  ctx.onUpdate('add', (n: number) => n + 1)
  ctx.onUpdate('take', (n: number) => n - 1)
  return await ctx.signal('end')
})

onEveryStore(
  'an update of an unknown name',
  (world) => {
    it('is refused by the worker, with the names that it knows, whether the asker has the code or not', async () => {
      const w = await world()
      const worker = await w.engine()
      const { timeline } = await worker.run(cart, { id: 'c' })
      const tool = await w.engine()
      const head = (await tool.head(timeline))!
      for (const run of [runOf(tool, head, 'update'), runWithCode(tool, head, 'update', [cart])!]) {
        await expect(run.update('ad', 1, { timeout })).rejects.toMatchObject({
          code: 'NOT_FOUND',
          message: expect.stringContaining('it has: add, take'),
          data: { update: 'ad', known: ['add', 'take'] },
        })
        expect(await run.update('add', 1)).toBe(2)
      }
      const { ask } = await startServer({ rp: tool })
      const told = await ask(`${at(timeline)}/update`, { body: { name: 'ad', argument: 1, timeoutMs: 25_000 } })
      expect(told).toMatchObject({ status: 404, value: { code: 'NOT_FOUND' } })
    })
  },
  ['sqlite', 'postgres'],
)

onEveryStore(
  'an update of a name that the code lacks now',
  (world) => {
    it('is refused also while a step is under way, if the code has others', async () => {
      const w = await world()
      const worker = await w.engine()
      const gate = gated()
      const busy = workflow('busy', async (ctx) => {
        ctx.onUpdate('add', (n: number) => n + 1)
        await ctx.step('slow', () => gate.promise)
      })
      const { timeline } = await worker.run(busy, { id: 'b' })
      const tool = await w.engine()
      const asked = runOf(tool, (await tool.head(timeline))!, 'update').update('ad', 1, { timeout })
      await expect(asked).rejects.toThrow('it has: add')
      gate.resolve()
    })

    it('waits while the run is on its way to its first handler, and is answered there', async () => {
      const w = await world()
      const worker = await w.engine()
      const gate = gated()
      const late = workflow('late', async (ctx) => {
        await ctx.step('load', () => gate.promise)
        ctx.onUpdate('add', (n: number) => n + 1)
        await ctx.signal('end')
      })
      const { timeline } = await worker.run(late, { id: 'l' })
      const tool = await w.engine()
      const run = runOf(tool, (await tool.head(timeline))!, 'update')
      await expect(run.update('add', 1, { timeout: 300, key: 'one' })).rejects.toMatchObject({ code: 'TIMEOUT' })
      gate.resolve()
      expect(await run.update('add', 1, { timeout, key: 'one' })).toBe(2)
      await expect(run.update('ad', 1, { timeout })).rejects.toThrow('it has: add')
    })

    it('is judged by the local code where no process works on the run', async () => {
      const w = await world()
      const worker = await w.engine()
      const { timeline } = await worker.run(cart, { id: 'c' })
      await worker.close()
      const tool = await w.engine()
      const run = runWithCode(tool, (await tool.head(timeline))!, 'update', [cart])!
      await expect(run.update('ad', 1, { timeout })).rejects.toThrow('it has: add, take')
    })
  },
  ['sqlite'],
)

describe('a refused update', () => {
  it('is found by no handler that comes later, whatever crashes, and stays refused under its key', async () => {
    const kit = kitWith()
    const seen: number[] = []
    const phased = workflow('phased', async (ctx) => {
      await ctx.signal('open')
      ctx.onUpdate('add', (n: number) => seen.push(n))
      await ctx.signal('end')
      return seen.length
    })
    const run = await kit.run(phased, { id: '1' })
    const asked = () => kit.survive(() => kit.handle(run).update('add', 1, { timeout, key: 'one' }))
    await expect(asked()).rejects.toMatchObject({ code: 'NOT_FOUND' })
    kit.crash()
    await kit.survive(() => kit.handle(run).signal('open'))
    await kit.settle()
    kit.crash()
    await expect(asked()).rejects.toMatchObject({ code: 'NOT_FOUND' })
    expect(await kit.survive(() => kit.handle(run).update('add', 2, { timeout }))).toBe(1)
    expect(seen).toEqual([2])
  })
})
