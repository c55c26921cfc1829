// Examples of `reprise/job`: sources, items, progress, dead letters and consumers.

import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { timeline } from 'reprise'
import {
  attachReporter,
  consumer,
  consumerLag,
  csv,
  discardLetters,
  exportProgress,
  GiveUp,
  importProgress,
  itemQueue,
  job,
  jobFold,
  jobKind,
  json,
  jsonLines,
  keyRange,
  keyValue,
  lines,
  logOf,
  logSource,
  makeReporter,
  pages,
  queueSource,
  RetryLater,
  readLetters,
  redriveLetters,
  releaseConsumer,
  stopJob,
  stopOnSignals,
  text,
} from 'reprise/job'
import { memo } from 'reprise/memo'
import { valueSource } from 'reprise/pipeline'
import { FakeQueue } from 'reprise/testing'
import { example } from './example.ts'

const counter = timeline('counter', {
  initial: () => 0,
  apply: (total: number, entry: { type: 'added'; by: number }) => total + entry.by,
})

export default [
  example(['job', 'JobRun.started', 'JobRun.result', 'JobRun.watch'], async (rp) => {
    const papers = job('papers', { source: ['a', 'b'], key: (paper) => paper, each: (paper) => paper.toUpperCase() })
    const run = await rp.run(papers).started()
    const stop = run.watch((event) => event.type === 'failure' && console.error(event.key, event.error.message))
    assert.equal((await run.result()).done, 2)
    stop()
    assert.equal((await rp.run(papers).result()).skipped, 2)
  }),
  example(['itemQueue'], async (rp) => {
    const mails = itemQueue<{ to: string }>('mails')
    const sent: string[] = []
    const mailer = consumer('mailer', { from: [mails], follow: false, each: ({ item }) => void sent.push(item.to) })
    // Applications add items in their own transaction: within(rp, tx).items(mails, [{ to: 'ann' }])
    await rp.open(mails, 'items').append({ type: 'item', item: { to: 'ann' } })
    await rp.run(mailer).result()
    assert.deepEqual(sent, ['ann'])
  }),
  example(['logOf'], async (rp) => {
    const told: unknown[] = []
    const keep = (message: string, fields?: object) => void told.push({ message, ...fields })
    const papers = job('papers', {
      source: ['a'],
      key: (paper) => paper,
      each: (paper, item) => logOf(item, { debug: keep, info: keep, warn: keep, error: keep }).info('read', { paper }),
    })
    await rp.run(papers).result()
    assert.deepEqual(told, [{ message: 'read', job: 'papers', item: 'a', attempt: 1, paper: 'a' }])
  }),
  example(['JobRun.status', 'JobRun.stop', 'stopOnSignals', 'attachReporter'], async (rp) => {
    const endless = job('endless', {
      source: pages<number, number>((page = 0) => ({ items: [page], next: page + 1 })),
      each: () => 1,
    })
    const run = await rp.run(endless)
    const ignoreSignals = stopOnSignals(run)
    const detach = attachReporter(run, 'none')
    assert.equal(run.status().name, 'endless')
    assert.equal((await run.stop({ reason: 'that is enough' })).status, 'stopped')
    detach()
    ignoreSignals()
  }),
  example(['lines', 'jsonLines', 'csv'], async (rp, folder) => {
    const write = (name: string, text: string) => {
      writeFileSync(join(folder, name), text)
      return join(folder, name)
    }
    const words = job('words', { source: lines(write('words.txt', 'a\nb\n')), each: (word) => word.length })
    const orders = job('orders', {
      source: jsonLines<{ id: string }>(write('orders.jsonl', '{"id":"o1"}\n')),
      key: (order) => order.id,
      each: (order) => order.id,
    })
    const rows = job('rows', {
      source: csv(write('rows.csv', 'id,cents\na,7\n')),
      key: (row) => row.id!,
      each: () => 1,
    })
    const reports = [await rp.run(words).result(), await rp.run(orders).result(), await rp.run(rows).result()]
    assert.deepEqual(
      reports.map(({ done }) => done),
      [2, 1, 1],
    )
  }),
  example(['pages', 'keyRange', 'JobSourceContext.total'], async (rp) => {
    const fetchPage = (page = 1, context: { total(count: number): void }) => {
      context.total(4)
      return { items: [page * 2, page * 2 + 1], next: page < 2 ? page + 1 : null }
    }
    const paged = job('paged', { source: pages<number, number>(fetchPage), each: (item) => item })
    const table = [{ id: 1 }, { id: 2 }, { id: 3 }]
    const after = (id = 0, limit: number) => table.filter((row) => row.id > id).slice(0, limit)
    const ranged = job('ranged', {
      source: keyRange({ after, key: (row) => row.id }),
      key: (row) => row.id,
      each: () => 1,
    })
    assert.deepEqual([(await rp.run(paged).result()).done, (await rp.run(ranged).result()).done], [4, 3])
  }),
  example(['JobSourceContext.cursor'], async (rp) => {
    const numbers = job('numbers', {
      source: async function* (from: number = 0, context) {
        for (let n = from; n < 3; n++) {
          yield n
          context.cursor(n + 1)
        }
      },
      each: (n: number) => n,
    })
    assert.equal((await rp.run(numbers).result()).done, 3)
  }),
  example(['ItemContext.effect', 'RetryLater', 'GiveUp'], async (rp) => {
    const charge = job('charge', {
      source: ['ann', 'bob'],
      each: async (customer, ctx) => {
        if (ctx.attempt > 5) throw new GiveUp(`${customer} was tried too often`)
        if (customer === 'bob' && ctx.attempt === 1) throw new RetryLater('1ms')
        await ctx.effect('charge', ({ key }) => `charged ${customer} under ${key}`)
      },
    })
    assert.equal((await rp.run(charge).stop()).failed, 0)
  }),
  example(['ItemContext.memo'], async (rp) => {
    const length = memo('length', { version: 1, run: (text: string) => text.length })
    const measured = job('measured', {
      source: [
        { id: 1, text: 'the same' },
        { id: 2, text: 'the same' },
      ],
      key: ({ id }) => id,
      each: async ({ text }, ctx) => void (await ctx.memo(length, text)),
    })
    assert.equal((await rp.run(measured).result()).done, 2)
  }),
  example(
    ['ItemContext.commit', 'BatchContext.commit', 'BatchContext.fail'],
    async (rp) => {
      const create = job('create', {
        source: ['totals'],
        each: (name, ctx) => ctx.commit((sql) => sql.run(`CREATE TABLE ${name} (id TEXT)`)),
      })
      await rp.run(create).result()
      const fill = job('fill', {
        source: ['a', 'b', 'bad'],
        retry: { attempts: 1 },
        batch: { size: 3 },
        eachBatch: (items, ctx) => {
          for (const item of items) if (item === 'bad') ctx.fail(item, new Error('not an id'))
          const good = items.filter((item) => item !== 'bad')
          ctx.commit(async (sql) => {
            for (const item of good) await sql.run('INSERT INTO totals VALUES (?)', item)
          })
        },
      })
      const report = await rp.run(fill).result()
      assert.deepEqual([report.done, report.failed], [2, 1])
    },
    'sqlite',
  ),
  example(['readLetters', 'redriveLetters', 'discardLetters'], async (rp) => {
    const strict = job('strict', {
      source: ['good', 'bad', 'worse'],
      retry: { attempts: 1 },
      each: (item) => {
        if (item !== 'good') throw new Error(`${item} is not allowed`)
      },
    })
    await rp.run(strict).result()
    const letters = await readLetters(rp, 'job/strict')
    assert.deepEqual(letters.map(({ key }) => key).sort(), ['bad', 'worse'])
    await discardLetters(rp, 'job/strict', ['worse'])
    await redriveLetters(rp, 'job/strict', ['bad'], { bad: 'good' })
    await rp.run(strict).result()
    assert.deepEqual(await readLetters(rp, 'job/strict'), [])
  }),
  example(['JobRun.deadLetters', 'JobRun.redrive', 'JobRun.discard'], async (rp) => {
    const strict = job('strict', {
      source: ['good', 'bad', 'worse'],
      retry: { attempts: 1 },
      each: (item) => {
        if (item !== 'good') throw new Error(`${item} is not allowed`)
      },
    })
    const run = await rp.run(strict)
    await run.result()
    assert.equal((await run.deadLetters()).length, 2)
    await run.discard(['worse'])
    await run.redrive(['bad'], { edits: { bad: 'good' } })
    assert.equal((await rp.run(strict).result()).dead, 0)
  }),
  example(['exportProgress', 'importProgress', 'stopJob'], async (rp) => {
    const papers = job('papers', { source: ['a', 'b', 'c'], each: () => 1 })
    // The progress of a script so far, one key per line.
    await importProgress(rp, 'papers', ['a', 'b'])
    assert.equal((await rp.run(papers).result()).done, 1)
    const keys: string[] = []
    for await (const line of exportProgress(rp, 'job/papers')) keys.push(line.key!)
    assert.equal(keys.length, 3)
    // From any process.
    await stopJob(rp, 'job/papers', 'the night is over')
  }),
  example(['consumer', 'consumerLag', 'releaseConsumer'], async (rp) => {
    await rp.open(counter, 'visits').append({ type: 'added', by: 2 })
    const mailer = consumer('mailer', {
      from: [counter],
      follow: false,
      each: (entry) => console.assert(entry.seq === 1),
    })
    assert.equal((await rp.run(mailer).result()).done, 1)
    assert.equal((await consumerLag(rp, mailer)).runs, 0)
    await releaseConsumer(rp, mailer)
  }),
  example(['queueSource', 'json'], async (rp) => {
    const queue = new FakeQueue()
    queue.send(['{"id":"a"}', '{"id":"b"}', '{"id":"a"}'])
    const orders = job('orders', {
      source: queueSource(queue, { decode: json<{ id: string }>(), untilEmptyFor: 50 }),
      key: (order) => order.id,
      concurrency: 8,
      each: (order) => console.assert(order.id !== ''),
    })
    assert.equal((await rp.run(orders).result()).done, 2)
    assert.equal(queue.size, 0)
  }),
  example(['logSource', 'text', 'keyValue'], async (rp) => {
    const bytes = (value: string) => new TextEncoder().encode(value)
    const records = [{ key: bytes('a'), value: bytes('1') }]
    // Any source of reprise/pipeline: here values, elsewhere kafkaSource() or natsSource().
    const prices = job('prices', {
      source: logSource(valueSource(records), { decode: keyValue(text()) }),
      key: ({ key }) => key,
      each: ({ value }) => assert.equal(value, '1'),
    })
    assert.equal((await rp.run(prices).result()).done, 1)
  }),
  example(['makeReporter'], async (rp) => {
    const written: string[] = []
    const reporter = makeReporter('lines', { write: (text) => void written.push(text), isTTY: false })
    const papers = job('papers', { source: ['a'], each: () => 1 })
    await rp.run(papers, { report: reporter }).result()
    assert.ok(written.length > 0)
  }),
  example(['jobKind', 'jobFold'], async (rp) => {
    // Lets tools read jobs whose definition is not loaded.
    rp.declare(jobKind)
    console.assert(jobFold({ retain: { checkpoints: 2 } }).version !== '')
  }),
]
