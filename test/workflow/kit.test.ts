// The testing kit itself (D7): virtual time, crashes, and what they do to a run.

import { expect, it } from 'vitest'
import { workflow } from '../../src/layers/workflow/index.ts'
import { WorkflowKit } from '../../src/testing/index.ts'

it('a year of sleeps takes no time (D7)', async () => {
  const yearly = workflow('yearly', async (ctx) => {
    const seen: number[] = []
    for (const pause of ['31d', '28d', '200d', '106d']) {
      await ctx.sleep(pause)
      seen.push(ctx.now())
    }
    return seen.map((at) => new Date(at).toISOString().slice(0, 10))
  })
  const kit = new WorkflowKit({ startAt: Date.UTC(2026, 0, 1) })
  const run = await kit.run(yearly, undefined, { id: 'y' })
  expect(await kit.result(run)).toEqual(['2026-02-01', '2026-03-01', '2026-09-17', '2027-01-01'])
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
