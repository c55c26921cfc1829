// The testing kit itself (D7): virtual time, crashes, and what they do to a run.

import { expect, it } from 'vitest'
import { workflow } from '../../src/layers/workflow/index.ts'
import { WorkflowKit } from '../../src/testing/index.ts'

it('a year of sleeps takes no time (D7)', async () => {
  const yearly = workflow('yearly', async (ctx) => {
    const days: number[] = []
    for (let day = 0; day < 365; day++) {
      await ctx.sleep('1d')
      days.push(ctx.now())
    }
    return days.length
  })
  const kit = new WorkflowKit({ startAt: Date.UTC(2026, 0, 1) })
  const run = await kit.run(yearly, undefined, { id: 'y' })
  expect(await kit.result(run)).toBe(365)
  expect(new Date(kit.now()).toISOString().slice(0, 10)).toBe('2027-01-01')
  await kit.close()
})

it('a crash in the middle of a step repeats that step with the same key, and no other (G5)', async () => {
  const calls: string[] = []
  const kit = new WorkflowKit({ crashAt: [{ effect: 2, when: 'after' }] })
  const three = workflow('three', async (ctx) => {
    for (const name of ['a', 'b', 'c']) await ctx.step(name, ({ key }) => kit.effect(() => calls.push(key)))
    return 'ok'
  })
  const run = await kit.run(three, undefined, { id: 't' })
  expect(await kit.result(run)).toBe('ok')
  expect(kit.crashes).toBe(1)
  expect(calls.map((key) => key.split(':')[1])).toEqual(['a', 'b', 'b', 'c'])
  await kit.close()
})
