// Examples of `reprise/workflow`: the verbs of workflow code, and the verbs on a run.

import assert from 'node:assert/strict'
import { join } from 'node:path'
import { memo } from 'reprise/memo'
import {
  checkDefinitions,
  dag,
  exportHistory,
  GiveUp,
  loadHistory,
  logOf,
  query,
  queue,
  RetryLater,
  saveHistory,
  schedule,
  signal,
  summarizeWorkflow,
  update,
  workflow,
  workflowKind,
  workflows,
} from 'reprise/workflow'
import { example } from './example.ts'

const greet = workflow('greet', async (ctx, name: string) => await ctx.step('greet', () => `Hello ${name}`))
const paid = signal<{ cents: number }>('paid')
const waiting = workflow('waiting', async (ctx) => (await ctx.signal(paid)).cents)

export default [
  example(['workflow', 'WorkflowContext.step', 'WorkflowRun.result'], async (rp) => {
    const checkout = workflow('checkout', async (ctx, cents: number) => {
      const receipt = await ctx.step('charge', ({ key }) => `${cents} under ${key}`, {
        compensate: (r) => console.log(r),
      })
      return receipt.length > 0
    })
    assert.equal(await rp.run(checkout, 100, { id: 'order-1' }).result(), true)
  }),
  example(['WorkflowContext.heartbeat', 'StepCall.heartbeat', 'RetryLater', 'GiveUp'], async (rp) => {
    let calls = 0
    const copy = workflow('copy', async (ctx) => {
      return await ctx.step('copy', async ({ attempt, heartbeat }) => {
        calls += 1
        if (calls === 1) throw new RetryLater('1ms', 'the disk is busy')
        if (calls > 5) throw new GiveUp('it was tried too often')
        await heartbeat({ copied: 100 })
        await ctx.heartbeat({ copied: 200 })
        return attempt
      })
    })
    assert.equal(await rp.run(copy).result(), 1)
  }),
  example(['WorkflowContext.memo'], async (rp) => {
    const square = memo('square', { version: 1, run: (n: number) => n * n })
    const squared = workflow('squared', async (ctx, n: number) => await ctx.memo(square, n))
    assert.equal(await rp.run(squared, 3, { id: 'one' }).result(), 9)
    assert.equal(await rp.run(squared, 3, { id: 'two' }).result(), 9)
    const { provenance } = await (await rp.open(square)).recall([3])
    assert.equal(provenance.asker?.timeline, 'workflow/squared/one')
  }),
  example(
    ['WorkflowContext.transaction'],
    async (rp) => {
      const book = workflow('book', async (ctx) => {
        await ctx.transaction('create', (sql) => sql.run('CREATE TABLE books (title TEXT)'))
        return await ctx.transaction(
          'book',
          async (sql) => (await sql.run("INSERT INTO books VALUES ('Emma')")).changes,
        )
      })
      assert.equal(await rp.run(book).result(), 1)
    },
    'sqlite',
  ),
  example(
    [
      'WorkflowContext.sleep',
      'WorkflowContext.sleepUntil',
      'WorkflowContext.now',
      'WorkflowContext.random',
      'WorkflowContext.uuid',
    ],
    async (rp) => {
      const wait = workflow('wait', async (ctx) => {
        const began = ctx.now()
        await ctx.sleep('1ms')
        await ctx.sleepUntil(new Date(ctx.now() + 1))
        return ctx.now() > began && ctx.random() < 1 && ctx.uuid().length === 36
      })
      assert.equal(await rp.run(wait).result(), true)
    },
  ),
  example(['WorkflowContext.parallel', 'WorkflowContext.race'], async (rp) => {
    const both = workflow('both', async (ctx) => {
      const sums = await ctx.parallel({ a: (own) => own.step('a', () => 1), b: (own) => own.step('b', () => 2) })
      const first = await ctx.race({ quick: (own) => own.step('quick', () => 3), slow: (own) => own.sleep('1d') })
      return [sums.a + sums.b, first.winner]
    })
    assert.deepEqual(await rp.run(both).result(), [3, 'quick'])
  }),
  example(['WorkflowContext.loop', 'LoopContext.stop'], async (rp) => {
    const count = workflow('count', async (ctx) => {
      return await ctx.loop(0, (n, own) => (n === 3 ? own.stop(`counted to ${n}`) : n + 1))
    })
    assert.equal(await rp.run(count).result(), 'counted to 3')
  }),
  example(['WorkflowContext.child', 'WorkflowContext.start'], async (rp) => {
    const parent = workflow('parent', async (ctx) => {
      await ctx.start(greet, 'bob')
      return await ctx.child(greet, 'ann')
    })
    rp.work([greet])
    assert.equal(await rp.run(parent).result(), 'Hello ann')
  }),
  example(['WorkflowContext.patch', 'WorkflowContext.attributes', 'WorkflowContext.continueAsNew'], async (rp) => {
    const monthly = workflow('monthly', async (ctx, month: number) => {
      ctx.attributes({ month })
      const cents = ctx.patch('new-prices') ? 120 : 100
      if (month < 3) ctx.continueAsNew(month + 1)
      return month * cents
    })
    assert.equal(await rp.run(monthly, 1).result(), 360)
  }),
  example(['signal', 'WorkflowContext.signal', 'WorkflowRun.signal', 'WorkflowRun.waitsFor'], async (rp) => {
    const run = await rp.run(waiting, { id: 'w1' })
    await run.signal(paid, { cents: 7 }, { key: 'payment-1' })
    assert.equal(await run.result(), 7)
    assert.deepEqual(await run.waitsFor(), [])
  }),
  example(
    [
      'query',
      'update',
      'WorkflowContext.onQuery',
      'WorkflowContext.onUpdate',
      'WorkflowRun.query',
      'WorkflowRun.update',
    ],
    async (rp) => {
      const total = query<[], number>('total')
      const add = update<number, number>('add')
      const cart = workflow('cart', async (ctx) => {
        let sum = 0
        ctx.onQuery(total, () => sum)
        ctx.onUpdate(add, (n) => {
          sum += n
          return sum
        })
        await ctx.signal('done')
        return sum
      })
      const run = await rp.run(cart, { id: 'c1' })
      assert.equal(await run.update(add, 5), 5)
      assert.equal(await run.query(total), 5)
      await run.signal('done')
      assert.equal(await run.result(), 5)
    },
  ),
  example(
    ['WorkflowRun.started', 'WorkflowRun.cancel', 'WorkflowRun.terminate', 'WorkflowRun.status', 'WorkflowRun.state'],
    async (rp) => {
      const one = await rp.run(waiting, { id: 'w1' }).started()
      await one.cancel({ reason: 'nobody pays' })
      await assert.rejects(one.result())
      const two = await rp.run(waiting, { id: 'w2' })
      await two.terminate({ reason: 'wrong input' })
      await assert.rejects(two.result())
      assert.equal((await two.status()).status, 'terminated')
      console.assert((await two.state()).journal !== undefined)
    },
  ),
  example(['WorkflowRun.retry', 'WorkflowRun.fork', 'WorkflowRun.rollback'], async (rp) => {
    let isUp = false
    const fetching = workflow('fetching', async (ctx) => {
      await ctx.step('prepare', () => 1)
      return await ctx.step('fetch', () => (isUp ? 'text' : Promise.reject(new Error('down'))), {
        retry: { attempts: 1 },
      })
    })
    const run = await rp.run(fetching, { id: 'f1' })
    await assert.rejects(run.result())
    isUp = true
    await run.retry()
    assert.equal(await run.result(), 'text')
    const other = await run.fork('fetch')
    const asIf = await run.fork('fetch', { result: 'cached', by: 'ann' })
    assert.equal(await other.result(), 'text')
    assert.equal(await asIf.result(), 'cached')
    await run.rollback({ to: 'fetch' })
    assert.equal(await run.result(), 'text')
  }),
  example(['WorkflowRun.rerun', 'WorkflowRun.planRerun', 'WorkflowRun.steps'], async (rp) => {
    let calls = 0
    const report = workflow('report', async (ctx) => {
      const rows = await ctx.step('extract', () => ['a', 'b'], { after: [] })
      const rates = await ctx.step('rates', () => 2, { after: [] })
      const clean = await ctx.step('clean', () => [...rows, calls++], { after: ['extract'] })
      return await ctx.step('load', () => clean.length * rates, { after: ['clean', 'rates'] })
    })
    const run = await rp.run(report, { id: 'r1' })
    assert.equal(await run.result(), 6)
    assert.deepEqual((await run.planRerun('clean')).repeats, ['clean', 'load'])
    assert.deepEqual((await run.steps()).at(-1)!.after, ['clean', 'rates'])
    await run.rerun('clean')
    assert.equal(await run.result(), 6)
    assert.equal(calls, 2)
  }),
  example(['dag'], async (rp) => {
    const calls: string[] = []
    const etl = dag('etl', {
      extract: { run: (_, { day }) => [day, 'a', 'b'] },
      rates: { run: () => 2 },
      clean: { after: ['extract'], run: ({ extract }) => extract.slice(1) },
      load: {
        after: ['clean', 'rates'],
        run: ({ clean, rates }, { day }) => {
          calls.push(day)
          return clean.length * rates
        },
      },
    })
    const run = await rp.run(etl, { day: '2026-01-01' }, { id: '2026-01-01' })
    assert.equal((await run.result()).load, 4)
    const { completed, skipped } = await etl.backfill(rp, { from: '2026-01-01', to: '2026-01-03' })
    assert.deepEqual([completed.length, skipped], [2, ['2026-01-01']])
    await etl.backfill(rp, { from: '2026-01-02', to: '2026-01-03', rerun: 'clean', key: 'new-rule' })
    assert.equal(calls.length, 5)
  }),
  example(['WorkflowRun.undo', 'WorkflowRun.restart'], async (rp) => {
    const undone: string[] = []
    const pay = workflow('pay', async (ctx, cents: number) => {
      return await ctx.step('pay', () => cents, { compensate: (paid) => void undone.push(`gave back ${paid}`) })
    })
    const run = await rp.run(pay, 7, { id: 'p1' })
    await run.result()
    await run.undo({ reason: 'it was a mistake' })
    await assert.rejects(run.result())
    assert.deepEqual(undone, ['gave back 7'])
    await run.restart(9)
    assert.equal(await run.result(), 9)
  }),
  example(
    ['WorkflowRun.settle', 'WorkflowRun.resume'],
    async (rp) => {
      // A run that a crash left in doubt, or that is stuck: a person decides how it continues.
      const run = workflows(rp).of(greet).get('greet-1')
      for (const wait of await run.waitsFor()) if (wait.needsPerson) await run.settle(wait.name, 'done', { by: 'ann' })
      await run.resume('ann')
    },
    'compiled',
  ),
  example(['workflows', 'Workflows.list', 'Workflows.of', 'WorkflowRuns.get', 'WorkflowRuns.list'], async (rp) => {
    await rp.run(greet, 'ann', { id: 'g1' }).result()
    const greetings = workflows(rp).of<string>(greet)
    assert.equal(await greetings.get('g1').result(), 'Hello ann')
    assert.equal((await greetings.list({ status: 'completed' })).length, 1)
    assert.equal((await workflows(rp).list()).length, 1)
  }),
  example(
    [
      'WorkflowRuns.signal',
      'WorkflowRuns.cancel',
      'WorkflowRuns.terminate',
      'WorkflowRuns.retry',
      'WorkflowRuns.rollback',
      'WorkflowRuns.fork',
    ],
    async (rp) => {
      for (const id of ['w1', 'w2', 'w3']) await rp.run(waiting, { id })
      const runs = workflows(rp).of(waiting)
      assert.equal((await runs.signal({ status: 'running' }, paid, { cents: 1 })).done.length, 3)
      for (const id of ['w1', 'w2', 'w3']) await runs.get(id).result()
      const none = [
        await runs.cancel({ status: 'running' }),
        await runs.terminate({ status: 'running' }),
        await runs.retry({ status: 'failed' }),
        await runs.rollback({ status: 'failed' }, { to: 'charge' }),
        await runs.fork({ status: 'failed' }, 'charge'),
      ]
      assert.deepEqual(
        none.flatMap(({ done }) => done),
        [],
      )
    },
  ),
  example(['queue', 'schedule'], async (rp) => {
    const gpu = queue('gpu', { concurrency: 4, perKey: 1 })
    const train = workflow('train', async (ctx, epochs: number) => ctx.step('train', () => epochs), { queue: gpu })
    const nightly = schedule('nightly', { workflow: train, input: 3, cron: '0 3 * * *', timezone: 'Europe/Berlin' })
    rp.work([gpu, train, nightly])
    assert.equal(await rp.run(train, 2, { queueKey: 'ann', priority: 5 }).result(), 2)
  }),
  example(['exportHistory', 'saveHistory', 'loadHistory', 'checkDefinitions'], async (rp, folder) => {
    await rp.run(greet, 'ann', { id: 'g1' }).result()
    const history = await exportHistory(rp, 'workflow/greet/g1')
    await saveHistory(rp, 'workflow/greet/g1', join(folder, 'g1.json'))
    assert.equal((await loadHistory(join(folder, 'g1.json'))).entries.length, history.entries.length)
    const report = await checkDefinitions(rp, [greet], { ended: true })
    assert.equal(report.diverging.length, 0)
  }),
  example(['logOf'], async (rp) => {
    const lines: string[] = []
    const keep = (message: string) => void lines.push(message)
    const spoken = workflow('spoken', async (ctx) => {
      const log = logOf(ctx, { debug: keep, info: keep, warn: keep, error: keep })
      log.debug('begins')
      await ctx.step('say', () => log.info('says it, with step and attempt'))
      log.warn('is about to end')
      log.error('ends')
    })
    await rp.run(spoken).result()
    assert.equal(lines.length, 4)
  }),
  example(['summarizeWorkflow', 'workflowKind'], async (rp) => {
    rp.declare(workflowKind)
    const run = await rp.run(greet, 'ann', { id: 'g1' })
    await run.result()
    assert.equal(summarizeWorkflow(await run.state()).isEnded, true)
  }),
]
