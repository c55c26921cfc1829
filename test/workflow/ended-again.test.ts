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
  const undone: string[] = []
  const finish: (() => void)[] = []
  const order = workflow('order', async (ctx) => {
    await ctx.step('charge', () => new Promise<void>((resolve) => void finish.push(resolve)), {
      compensate: () => void undone.push('charge'),
    })
  })
  const run = await kit.run(order, { id: '1' })
  const back = (key: string) => kit.survive((rp) => kit.handle(run, rp).rollback({ to: 'charge', key }))
  await kit.advance(10)
  finish[0]!()
  await kit.result(run)
  // The run has ended; the first request is an entry, its repetition would be mail.
  await back('a')
  await kit.advance(10)
  expect([finish.length, undone.length]).toEqual([2, 1])
  await back('a')
  finish[1]!()
  await kit.result(run)
  await back('a')
  await kit.settle()
  expect([finish.length, undone.length]).toEqual([2, 1])
  // The run is at work: the first request is mail, its repetition would be an entry.
  await back('b')
  await kit.advance(10)
  await back('c')
  finish[2]!()
  await kit.advance(10)
  finish[3]!()
  await kit.result(run)
  await back('c')
  await kit.settle()
  expect([finish.length, undone.length]).toEqual([4, 3])
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
