// Examples of `reprise/testing`: simulated time, crashes at every point, and the contract of a store.

import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { agent } from 'reprise/agent'
import { aggregate, Refused } from 'reprise/events'
import { job, queueSource, text } from 'reprise/job'
import { pipeline, type Sink, type Source, tableSink, valueSource } from 'reprise/pipeline'
import type { Store } from 'reprise/store'
import { type Transaction, table } from 'reprise/table'
import {
  Crashed,
  checkHistories,
  conformance,
  crashEverywhere,
  FakeQueue,
  faultyStore,
  given,
  queueConformance,
  sinkConformance,
  slowStore,
  sourceConformance,
  story,
  TestKit,
  VirtualClock,
  WorkflowKit,
} from 'reprise/testing'
import { saveHistory, workflow } from 'reprise/workflow'
import { example } from './example.ts'

declare const mySource: Source<number>
declare const mySink: Sink<number>
declare function readMyTopic(): Promise<number[]>
declare function openMyStore(namespace?: string): Promise<Store>

const account = aggregate('account', {
  initial: () => ({ balance: 0 }),
  evolve: { deposited: (s: { balance: number }, e: { amount: number }) => ({ balance: s.balance + e.amount }) },
  decide: {
    deposit: (_s: { balance: number }, c: { amount: number }) => {
      if (c.amount < 0) throw new Refused('negative amounts are refused')
      return c.amount === 0 ? undefined : { type: 'deposited' as const, amount: c.amount }
    },
  },
})
const ship = workflow('ship', async (ctx, order: string) => {
  await ctx.step('pack', () => `packed ${order}`)
  await ctx.sleep('1h')
  return await ctx.step('send', () => 'sent')
})

export default [
  example(
    ['given', 'Given.and', 'Given.when', 'When.thenEvents', 'When.thenState', 'When.thenNothing', 'When.thenRefused'],
    async () => {
      const rich = given(account, { type: 'deposited', amount: 10 }).and({ type: 'deposited', amount: 5 })
      rich.when('deposit', { amount: 1 }).thenEvents({ type: 'deposited', amount: 1 }).thenState({ balance: 16 })
      rich.when('deposit', { amount: 0 }).thenNothing()
      rich.when('deposit', { amount: -1 }).thenRefused('negative')
    },
  ),
  example(['story', 'Story.when', 'Story.signal', 'Story.cancelled', 'Story.outcome'], async () => {
    const told = await story(ship, 'o-7').when({ send: 'sent by hand' }).signal('hurry').outcome()
    assert.equal(told.result, 'sent by hand')
    const stopped = await story(ship, 'o-8').cancelled('no longer wanted', '10m').outcome()
    assert.equal(stopped.result, undefined)
  }),
  example(
    ['WorkflowKit.run', 'WorkflowKit.result', 'TestKit.now', 'TestKit.until', 'WorkflowKit.handle', 'TestKit.close'],
    async () => {
      const kit = new WorkflowKit()
      const began = kit.now()
      const run = await kit.run(ship, 'o-7', { id: '1' })
      assert.equal(await kit.result(run), 'sent')
      assert.ok(kit.now() - began >= 3_600_000)
      assert.equal((await kit.until(kit.handle(run).status())).status, 'completed')
      await kit.close()
    },
  ),
  example(
    [
      'TestKit.work',
      'TestKit.deploy',
      'TestKit.advance',
      'TestKit.settle',
      'TestKit.survive',
      'TestKit.crash',
      'TestKit.effect',
    ],
    async () => {
      const kit = new WorkflowKit()
      kit.work(ship)
      const run = await kit.run(ship, 'o-7', { id: '1' })
      await kit.settle()
      kit.crash()
      const newer = workflow('ship', async (ctx, order: string) => {
        await ctx.step('pack', () => `packed ${order}`)
        await ctx.sleep('1h')
        return await ctx.step('send', () => kit.effect(() => 'sent by the new version'))
      })
      kit.deploy(newer)
      await kit.advance('30m')
      assert.equal(await kit.result(run), 'sent by the new version')
      assert.equal((await kit.survive((rp) => rp.list())).length, 1)
      await kit.close()
    },
  ),
  example(['TestKit.survive', 'TestKit.effect', 'TestKit.now', 'TestKit.close'], async () => {
    const kit = new TestKit()
    const began = kit.now()
    let tries = 0
    const flaky = job('flaky', {
      source: ['a'],
      key: String,
      retry: { attempts: 3, backoff: '5m', backoffMax: '1h' },
      each: () =>
        kit.effect(() => {
          tries += 1
          if (tries < 3) throw new Error('busy')
        }),
    })
    const { done } = await kit.survive((rp) => rp.run(flaky).result())
    assert.equal(done, 1)
    assert.ok(kit.now() - began >= 300_000)
    await kit.close()
  }),
  example(
    [
      'TestKit.crash',
      'TestKit.pause',
      'TestKit.until',
      'TestKit.advance',
      'TestKit.settle',
      'TestKit.work',
      'TestKit.deploy',
    ],
    async () => {
      const stock = table<number>('stock')
      const kit = new TestKit({ work: [ship] })
      await kit.survive(async (rp) => await (await rp.open(stock)).set('apples', 3))
      kit.crash()
      assert.equal(await kit.survive(async (rp) => (await rp.open(stock)).get('apples')), 3)
      const paused = kit.pause('1m')
      assert.equal(await kit.until(kit.rp.open(stock, undefined, { wait: '5m' }).then((open) => open.get('apples'))), 3)
      await kit.advance('2m')
      await paused
      kit.work(ship)
      kit.deploy(ship)
      await kit.settle()
      await kit.close()
    },
  ),
  // Every model ends as without a crash, wherever its process dies.
  example(['crashEverywhere'], async () => {
    const stock = table<number>('stock')
    const clerk = agent('clerk', { model: () => ({ content: 'hello' }) })
    const sums = table<number>('sums')
    const add = tableSink({
      table: sums,
      write: (tx: Transaction<number>, n: number) => void tx.set('sum', (tx.get('sum') ?? 0) + n),
    })
    const numbers = pipeline('numbers', (p) => void p.from('numbers', valueSource([1, 2])).to('sums', add))
    const { undisturbed, crashes } = await crashEverywhere(
      async (kit) => {
        const copy = job('copy', { source: ['a', 'b'], key: String, each: () => kit.effect(() => undefined) })
        const { failed } = await kit.survive((rp) => rp.run(copy).result())
        await kit.survive(async (rp) => await (await rp.open(stock)).set('apples', 3))
        const { content } = await kit.survive(async (rp) =>
          (await rp.open(clerk, 's')).turn('hi', { key: 'request-1' }),
        )
        await kit.survive((rp) => rp.run(numbers).result())
        const sum = await kit.survive(async (rp) => (await rp.open(sums)).get('sum'))
        return { failed, content, sum, apples: await kit.survive(async (rp) => (await rp.open(stock)).get('apples')) }
      },
      { every: 5 },
    )
    for (const { outcome } of crashes) assert.deepEqual(outcome, undisturbed)
    assert.deepEqual(undisturbed, { failed: 0, content: 'hello', sum: 3, apples: 3 })
  }),
  example(['crashEverywhere', 'Crashed'], async () => {
    const { undisturbed, crashes } = await crashEverywhere(async (kit) => {
      return await kit.result(await kit.run(ship, 'o-7', { id: '1' }))
    })
    for (const { outcome } of crashes) assert.equal(outcome, undisturbed)
    console.assert(new Crashed() instanceof Error)
  }),
  example(['TestKit.pause'], async () => {
    const kit = new WorkflowKit()
    const run = await kit.run(ship, 'o-7', { id: '1' })
    // Another process starts meanwhile; the first continues as a zombie, and its writes are refused.
    const paused = kit.pause('1m')
    assert.equal(await kit.result(run), 'sent')
    await paused
    await kit.close()
  }),
  example(['checkHistories'], async (rp, folder) => {
    const quick = workflow('quick', async (ctx) => ctx.step('a', () => 1))
    await rp.run(quick, { id: '1' }).result()
    await saveHistory(rp, 'workflow/quick/1', `${folder}/1.json`)
    assert.equal(await checkHistories([quick], folder), 1)
  }),
  example(['VirtualClock.now', 'VirtualClock.nextAt', 'VirtualClock.leap', 'VirtualClock.view'], async () => {
    const clock = new VirtualClock(0)
    const { after } = clock.view(() => true)
    let rang = false
    after(1000, () => {
      rang = true
    })
    assert.equal(clock.nextAt(), 1000)
    clock.leap(1000)
    assert.deepEqual([clock.now(), rang], [1000, true])
  }),
  example(
    ['conformance', 'faultyStore', 'slowStore'],
    async () => {
      conformance(
        { describe, it },
        { name: 'my store', create: async () => ({ open: openMyStore, destroy: async () => undefined }) },
      )
      const store = await openMyStore()
      faultyStore(store, (method, n) => (method === 'commit' && n === 3 ? 'fail-after' : 'ok'))
      slowStore(store, (method) =>
        method === 'inbox' ? new Promise((resolve) => setTimeout(resolve, 200)) : undefined,
      )
    },
    'compiled',
  ),
  example(['FakeQueue.send', 'FakeQueue.goAway', 'FakeQueue.comeBack'], async (rp) => {
    const queue = new FakeQueue()
    queue.send(['a', 'b'])
    queue.goAway()
    const work = job('work', { source: queueSource(queue, { decode: text(), untilEmptyFor: 50 }), each: () => 1 })
    const run = await rp.run(work)
    queue.comeBack()
    assert.equal((await run.result()).done, 2)
  }),
  example(['FakeQueue.connect', 'FakeQueue.isAway'], async () => {
    const queue = new FakeQueue({ holdMs: 1000 })
    queue.send(['a'])
    const connection = await queue.connect()
    const [delivery] = await connection.receive(10, 100, new AbortController().signal)
    await connection.acknowledge([delivery!])
    assert.equal(queue.size, 0)
    queue.goAway()
    await connection.extend([]).catch((error) => assert.ok(queue.isAway(error)))
  }),
  example(
    ['queueConformance'],
    async () => {
      const decoder = new TextDecoder()
      queueConformance(
        { describe, it },
        {
          name: 'my queue',
          create: async () => {
            const queue = new FakeQueue({ holdMs: 300 })
            return {
              queue,
              textOf: ({ value }) => decoder.decode(value),
              send: async (texts) => queue.send(texts),
              size: async () => queue.size,
              destroy: async () => undefined,
            }
          },
        },
      )
    },
    'compiled',
  ),
  example(
    ['sourceConformance', 'sinkConformance'],
    async () => {
      const destroy = async () => undefined
      const expected = () => new Map([['0', [1, 2, 3]]])
      sourceConformance(
        { describe, it },
        { name: 'my queue', create: async () => ({ source: () => mySource, expected, ends: true, destroy }) },
      )
      sinkConformance(
        { describe, it },
        {
          name: 'my topic',
          create: async () => ({
            sink: () => mySink,
            value: (n) => n,
            visible: readMyTopic,
            isExactlyOnce: true,
            destroy,
          }),
        },
      )
    },
    'compiled',
  ),
]
