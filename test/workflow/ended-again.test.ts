// Requests that make an ended run continue: a repeated one has no effect, and the run gets its whole time limit again.

import { expect, it } from 'vitest'
import { type WorkflowContext, workflow } from '../../src/layers/workflow/index.ts'
import { kitWith } from './kits.ts'

const codeOf = (promise: Promise<unknown>) =>
  promise.then(
    () => 'none',
    (error: Error & { code?: string }) => error.code ?? error.message,
  )

it('a rollback with a key takes effect once: sent before and after the end, and while the code runs again', async () => {
  const kit = kitWith()
  const [charged, undone]: [string[], string[]] = [[], []]
  const order = workflow('order', async (ctx) => {
    await ctx.step('charge', ({ key }) => charged.push(key), { compensate: () => undone.push('charge') })
    await ctx.sleep('1h')
  })
  const run = await kit.run(order, { id: '1' })
  await kit.result(run)
  const counts = async (key: string) => {
    await kit.survive((rp) => kit.handle(run, rp).rollback({ to: 'charge', key }))
    await kit.advance('1s')
    return [charged.length, undone.length]
  }
  // The run has ended: the first request is an entry, and its repetition would be mail.
  expect(await counts('a')).toEqual([2, 1])
  expect(await counts('a')).toEqual([2, 1])
  await kit.result(run)
  expect(await counts('a')).toEqual([2, 1])
  // The run is at work: the first request is mail, and its repetition would be an entry.
  expect(await counts('b')).toEqual([3, 2])
  expect(await counts('c')).toEqual([4, 3])
  await kit.result(run)
  expect(await counts('c')).toEqual([4, 3])
  expect(new Set(charged).size).toBe(4)
})

it('a run that continues after its end has its whole time limit again, however often', async () => {
  const kit = kitWith()
  let isBroken = true
  const limited = workflow(
    'limited',
    async (ctx: WorkflowContext) => {
      await ctx.step('first', () => {}, { compensate: () => {} })
      await ctx.sleep('4s')
      const last = () => {
        if (isBroken) throw new Error('broken')
      }
      await ctx.step('last', last, { retry: { attempts: 1 } })
    },
    { timeout: '6s' },
  )
  const run = await kit.run(limited, { id: '1' })
  expect(await codeOf(kit.result(run))).toBe('broken')
  isBroken = false
  const rollback = () => kit.handle(run).rollback({ to: 'first' })
  for (const again of [
    rollback,
    rollback,
    () => kit.handle(run).rerun('first'),
    () => kit.handle(run).restart(undefined),
  ]) {
    await kit.advance('60s')
    await again()
    expect(await codeOf(kit.result(run))).toBe('none')
  }
  // The limit did not grow with each of them.
  await kit.advance('60s')
  await rollback()
  const { started, lastAt } = await run.state()
  expect(started!.deadline! - lastAt).toBe(6000)
})
