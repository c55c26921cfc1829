// The testing kit itself (D7): virtual time, crashes, and their effect on a run.

import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { isReprise } from '../../src/index.ts'
import { hostOf as workflowHostOf } from '../../src/layers/workflow/host.ts'
import { GiveUp, workflow } from '../../src/layers/workflow/index.ts'
import { checkHistories, story, WorkflowKit } from '../../src/testing/index.ts'
import { hostOf } from '../support/host.ts'
import { programs } from './golden-programs.ts'

it('a year of sleeps takes no time (D7)', async () => {
  const yearly = workflow('yearly', async (ctx) => {
    const seen: number[] = []
    for (const pause of ['31d', '28d', '200d', '106d'] as const) {
      await ctx.sleep(pause)
      seen.push(ctx.now())
    }
    return seen.map((at) => new Date(at).toISOString().slice(0, 10))
  })
  const kit = new WorkflowKit({ startAt: Date.UTC(2026, 0, 1) })
  const run = await kit.run(yearly, { id: 'y' })
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
  const run = await kit.run(three, { id: 't' })
  expect(await kit.result(run)).toBe('ok')
  expect(kit.crashes).toBe(1)
  expect(calls.map((key) => key.split('-')[0])).toEqual(['a', 'b', 'b', 'c'])
  expect(new Set(calls).size).toBe(3)
  await kit.close()
})

it('a saga is tested as a story: given, when, then (D7)', async () => {
  const trip = workflow('trip', async (ctx, where: string) => {
    await ctx.step('hotel', () => where, { compensate: () => undefined })
    await ctx.parallel([
      async (own) => await own.step('flight', () => 1, { compensate: () => undefined }),
      async (own) => await own.step('car', () => 2),
    ])
    await ctx.sleep('10d')
    return await ctx.signal('go')
  })
  const good = await story(trip, 'oslo').signal('go', 'gone', '1d').outcome()
  expect(good).toMatchObject({ result: 'gone', happened: ['hotel', 'flight', 'car'], status: 'completed' })
  const bad = await story(trip, 'oslo')
    .when({ car: new GiveUp('none left') })
    .outcome()
  expect(bad.status).toBe('failed')
  expect([...bad.happened].sort()).toEqual(['car failed', 'flight', 'hotel', 'undo flight', 'undo hotel'])
  expect(bad.happened.slice(-2)).toEqual(['undo flight', 'undo hotel'])
  const left = await story(trip, 'oslo')
    .cancelled('stayed at home', '2d')
    .outcome({ crashAt: [{ commit: 4, when: 'after' }] })
  expect(left.error?.message).toContain('stayed at home')
  expect(left.happened.slice(-2)).toEqual(['undo flight', 'undo hotel'])
})

it('recorded histories are replayed by any runner (A5.4)', async () => {
  const folder = fileURLToPath(new URL('../golden/workflow-1/', import.meta.url))
  expect(await checkHistories(programs, folder)).toBe(5)
  await expect(checkHistories(programs.slice(1), folder)).rejects.toThrow('no definition')
})

it('a run whose code throws while it is loaded, or whose history is damaged, is set aside; others go on', async () => {
  const kit = new WorkflowKit()
  const fine = workflow('fine', async (ctx) => {
    await ctx.sleep('1h')
    return 'fine'
  })
  const run = await kit.run(fine, { id: 'good' })
  const bad = await kit.run(fine, { id: 'bad' })
  await kit.advance('1m')
  const open = await workflowHostOf(hostOf(kit.rp)).take(bad.timeline)
  // An entry of an unknown type, as a newer version would write it.
  await open.write([{ type: '$effect.done', data: { id: 'never intended' } }]).catch(() => undefined)
  await open.close()
  const { store } = hostOf(kit.rp).kernel
  const read = store.read.bind(store)
  hostOf(kit.rp).kernel.store.read = async (timeline, after, bytes) => {
    const runs = await read(timeline, after, bytes)
    return timeline === bad.timeline ? runs.map((one) => ({ ...one, bytes: one.bytes.map((byte) => byte ^ 1) })) : runs
  }
  const seen = kit.result(bad).catch((error) => error)
  expect(await kit.result(run)).toBe('fine')
  expect(isReprise(await kit.until(seen), 'UNRECOVERABLE')).toBe(true)
  expect((await kit.handle(bad).status()).status).toBe('quarantined')
  await kit.close()
})
