// A person's decision on a held step or a stuck undo: the first counts, a repetition is accepted, a different one is refused
// with the first decision, its author and its time. No process has to work on the run: unread mail counts as well.

import { expect, it } from 'vitest'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { workflow } from '../../src/layers/workflow/index.ts'
import { effectsOf } from '../../src/operations/effects.ts'
import { declareKinds } from '../../src/operations/known-models.ts'
import { act } from '../../src/operations/run-verb.ts'
import { at, startServer } from '../server/support.ts'
import { until } from '../support/fixture.ts'
import { onEveryStore, type World } from '../support/worlds.ts'

const never = () => new Promise<never>(() => undefined)
const seen: string[] = []

const pay = workflow<string, string>('pay', async (ctx, what) => {
  if (what === 'stuck') {
    const compensate = () => Promise.reject(new Error('no answer'))
    await ctx.step('charge', () => 1, { compensate, compensateRetry: { attempts: 1 } })
    throw new Error('no')
  }
  const undo = () => void seen.push('undone by code')
  const charged = await ctx
    .step('charge', () => never(), { inDoubt: 'hold', undo })
    .catch((error: Error) => {
      seen.push(error.message)
      throw error
    })
  await ctx.signal('end')
  return String(charged)
})

onEveryStore(
  'a settlement',
  (world) => {
    const statusOf = async (rp: Reprise, id: string) => (await rp.head(`workflow/pay/${id}`))!.status
    const headOf = async (rp: Reprise, id = 'r') => (await rp.head(`workflow/pay/${id}`))!
    const settle = async (rp: Reprise, outcome: string, by: string, more = {}) =>
      await act(rp, await headOf(rp), 'settle', { step: 'charge', outcome, by, ...more })

    /** Held, and no process works on it. */
    async function held(w: World) {
      const before = await w.engine()
      await before.run(pay, 'held', { id: 'r' })
      await until(async () => (await headOf(before)).seq >= 2)
      await before.close({ grace: 0 })
      const holder = await w.engine()
      holder.work([pay])
      await until(async () => (await statusOf(holder, 'r')) === 'held')
      await holder.close()
      const tool = await w.engine()
      await declareKinds(tool)
      return tool
    }
    const works = async (w: World) => {
      const worker = await w.engine()
      worker.work([pay])
      return worker
    }

    it('of a held step is the first one, before and after the run read it, in all orders', async () => {
      const w = await world()
      const tool = await held(w)
      await settle(tool, 'compensated', 'ann')
      await settle(tool, 'compensated', 'bob')
      const refused = { code: 'CONFLICT', data: { outcome: 'compensated', by: 'ann', at: expect.any(Number) } }
      await expect(settle(tool, 'done', 'bob')).rejects.toMatchObject(refused)
      const { ask } = await startServer({ rp: tool })
      const timeline = at('workflow/pay/r')
      const body = { step: 'charge', outcome: 'done' }
      expect(await ask(`${timeline}/settle`, { body })).toMatchObject({ status: 409, value: { code: 'CONFLICT' } })
      const effect = `${timeline}/effects/charge/settle`
      expect(await ask(effect, { body: { outcome: 'done' } })).toMatchObject({ status: 409 })
      expect(await ask(effect, { body: { outcome: 'compensated' } })).toMatchObject({ status: 200 })
      seen.splice(0)
      const worker = await works(w)
      await until(async () => (await statusOf(worker, 'r')) === 'failed')
      // It happened and was undone manually: it fails, and is not undone again.
      expect(seen).toEqual(['it was undone manually, according to ann'])
      const [listed] = await effectsOf(tool, await headOf(tool))
      expect(listed).toMatchObject({ id: 'charge', state: 'compensated', outcome: 'compensated' })
      await settle(tool, 'compensated', 'bob')
      await expect(settle(tool, 'done', 'bob')).rejects.toMatchObject(refused)
    })

    it('sent by several at once is one of theirs, and the others are refused', async () => {
      const w = await world()
      const tool = await held(w)
      const results = [1, 2, 1, 2]
      const told = await Promise.allSettled(results.map((result, i) => settle(tool, 'done', `p${i}`, { result })))
      const said = results.filter((_, i) => told[i]!.status === 'fulfilled')
      expect(new Set(said).size).toBe(1)
      const worker = await works(w)
      await worker.run(pay, 'held', { id: 'r' }).signal('end')
      await until(async () => (await statusOf(worker, 'r')) === 'completed')
      expect(await worker.run(pay, 'held', { id: 'r' }).result()).toBe(String(said[0]))
    })

    it('of a stuck undo is that it was done, or is to be retried', async () => {
      const w = await world()
      const worker = await works(w)
      await worker.run(pay, 'stuck', { id: 'r' })
      await until(async () => (await statusOf(worker, 'r')) === 'stuck')
      for (const outcome of ['done', 'failed'])
        await expect(settle(worker, outcome, 'ann')).rejects.toThrow('compensated')
      await settle(worker, 'compensated', 'ann')
      await until(async () => (await statusOf(worker, 'r')) === 'failed')
      await expect(settle(worker, 'retry', 'bob')).rejects.toMatchObject({ code: 'CONFLICT', data: { by: 'ann' } })
    })
  },
  ['sqlite', 'postgres'],
)
