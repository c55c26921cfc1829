// Examples of `reprise/pipeline`: sources, operators, windows, state, sinks, and runs.

import assert from 'node:assert/strict'
import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { timeline } from 'reprise'
import {
  average,
  carries,
  checkPipelines,
  collectSink,
  comparePipelineState,
  count,
  csvSource,
  days,
  entrySource,
  every,
  fileSink,
  generatedSource,
  httpSink,
  iterableSource,
  json,
  jsonLineSource,
  keyValue,
  lineSource,
  list,
  listState,
  logOf,
  mapState,
  max,
  min,
  pageSource,
  pipeline,
  printSink,
  readPipelineState,
  reduce,
  reducingState,
  rowSink,
  sendSink,
  session,
  sliding,
  sqlSink,
  sum,
  tableSink,
  text,
  timelineSink,
  tumbling,
  valueSource,
  valueState,
  type WindowResult,
} from 'reprise/pipeline'
import { type Transaction, table } from 'reprise/table'
import { example } from './example.ts'

interface Order {
  readonly customer: string
  readonly cents: number
  readonly at: number
}

const orders: readonly Order[] = [
  { customer: 'ann', cents: 500, at: 1_000 },
  { customer: 'bob', cents: 100, at: 2_000 },
  { customer: 'ann', cents: 250, at: 61_000 },
]

export default [
  example(
    [
      'pipeline',
      'valueSource',
      'collectSink',
      'sum',
      'tumbling',
      'PipelineBuilder.from',
      'Stream.keyBy',
      'Stream.to',
      'KeyedStream.window',
      'WindowedStream.aggregate',
      'PipelineRun.result',
    ],
    async (rp) => {
      const totals = collectSink<WindowResult<number>>()
      const revenue = pipeline('revenue', (p) => {
        p.from('orders', valueSource(orders), { time: (order) => order.at })
          .keyBy((order) => order.customer)
          .window('per-minute', tumbling('1m'))
          .aggregate(sum((order) => order.cents))
          .to('totals', totals)
      })
      assert.equal((await rp.run(revenue).result()).status, 'completed')
      assert.equal(totals.values.length, 3)
    },
  ),
  example(['Stream.map', 'Stream.filter', 'Stream.flatMap', 'Stream.union', 'iterableSource'], async (rp) => {
    const words = collectSink<string>()
    const shout = pipeline('shout', (p) => {
      const a = p.from(
        'a',
        iterableSource(() => ['to be', 'or not']),
      )
      const b = p.from('b', valueSource(['to be']))
      a.union(b)
        .flatMap((line) => line.split(' '))
        .filter((word) => word !== 'or')
        .map((word) => word.toUpperCase())
        .to('words', words)
    })
    await rp.run(shout).result()
    assert.equal(words.values.length, 5)
  }),
  example(['Stream.rebalance'], async (rp) => {
    const scores = collectSink<number>()
    const scored = pipeline('scored', (p) => {
      p.from('words', valueSource(['to', 'be', 'or', 'not']))
        .rebalance()
        .map((word) => word.length)
        .to('scores', scores)
    })
    await rp.run(scored, { parallelism: 2 }).result() // with { threads: 2 }, the instances are on two threads
    assert.equal(scores.values.length, 4)
  }),
  example(['Stream.call', 'pageSource', 'generatedSource', 'printSink'], async (rp) => {
    const prices = collectSink<number>()
    const priced = pipeline('priced', (p) => {
      const pages = pageSource<number, number>(async (page) => ({
        items: [page ?? 0],
        next: (page ?? 0) < 2 ? (page ?? 0) + 1 : null,
      }))
      p.from('pages', pages)
        .call('price', async (n, { key }) => n * 100 + key.length * 0, { concurrency: 4 })
        .to('prices', prices)
      p.from(
        'numbers',
        generatedSource((n) => n, { count: 3 }),
      )
        .filter(() => false)
        .to('printed', printSink())
    })
    await rp.run(priced).result()
    assert.deepEqual(prices.values, [0, 100, 200])
  }),
  example(['logOf'], async (rp) => {
    const told: object[] = []
    const keys: string[] = []
    const keep = (message: string, fields?: object) => void told.push({ message, ...fields })
    const log = { debug: keep, info: keep, warn: keep, error: keep }
    const logged = pipeline('logged', (p) => {
      p.from('orders', valueSource(orders.slice(0, 1)))
        .call('price', async (order, call) => {
          keys.push(call.key)
          logOf(call, log).info('asked', { cents: order.cents })
          return order
        })
        .keyBy((order) => order.customer)
        .process('seen', { onRecord: (_, record) => logOf(record, log).debug('seen') })
        .to('nothing', collectSink())
    })
    await rp.run(logged).result()
    const of = { pipeline: 'pipeline/logged' }
    assert.deepEqual(told, [
      { message: 'asked', ...of, operator: 'price', key: keys[0], attempt: 1, cents: 500 },
      { message: 'seen', ...of, operator: 'seen', key: 'ann' },
    ])
  }),
  example(['lineSource', 'jsonLineSource', 'csvSource', 'fileSink'], async (rp, folder) => {
    const write = (name: string, text: string) => {
      writeFileSync(join(folder, name), text)
      return join(folder, name)
    }
    const out = join(folder, 'out')
    const reading = pipeline('reading', (p) => {
      const log = p.from('log', lineSource(write('a.log', 'one\ntwo\n')))
      const json = p
        .from('json', jsonLineSource<{ text: string }>(write('a.jsonl', '{"text":"three"}\n')))
        .map(({ text }) => text)
      const table = p.from('table', csvSource(write('a.csv', 'text\nfour\n'))).map((row) => row.text!)
      log.union(json, table).to('texts', fileSink<string>({ folder: out }))
    })
    await rp.run(reading).result()
    assert.ok(readdirSync(out).length > 0)
  }),
  example(['entrySource', 'count', 'KeyedStream.aggregate'], async (rp) => {
    const visits = timeline('visits', { initial: () => 0, apply: (n: number, _: { type: 'seen' }) => n + 1 })
    await rp.open(visits, 'home').append({ type: 'seen' })
    const seen = collectSink<{ key: string | number; value: number }>()
    const counting = pipeline('counting', (p) => {
      p.from('visits', entrySource([visits], { follow: false }))
        .keyBy((entry) => entry.timeline)
        .aggregate('so-far', count())
        .to('seen', seen)
    })
    await rp.run(counting).result()
    assert.equal(seen.values[0]!.value, 1)
  }),
  example(['days'], async (rp) => {
    const sums = collectSink<WindowResult<number>>()
    const daily = pipeline('daily', (p) => {
      p.from('orders', valueSource(orders), { time: (order) => order.at })
        .keyBy((order) => order.customer)
        .window('per-day', days('Europe/Berlin'))
        .aggregate(sum((order) => order.cents))
        .to('sums', sums)
    })
    await rp.run(daily).result()
    assert.equal(new Date(sums.values[0]!.start).toISOString(), '1969-12-31T23:00:00.000Z') // midnight in Berlin
  }),
  example(
    ['sliding', 'session', 'every', 'average', 'min', 'max', 'list', 'reduce', 'CountedStream.aggregate'],
    async (rp) => {
      const out = collectSink<unknown>()
      const many = pipeline('many', (p) => {
        const byCustomer = p.from('orders', valueSource(orders), { time: (o) => o.at }).keyBy((o) => o.customer)
        byCustomer
          .window('sliding', sliding('2m', '1m'))
          .aggregate(average((o) => o.cents))
          .to('averages-out', out)
        byCustomer.window('sessions', session('30s')).aggregate(list()).to('sessions-out', collectSink())
        byCustomer
          .window('pairs', every(2))
          .aggregate(max((o) => o.cents))
          .to('largest', collectSink())
        byCustomer
          .aggregate(
            'smallest',
            min((o) => o.cents),
          )
          .to('smallest-out', collectSink())
        byCustomer
          .aggregate(
            'newest',
            reduce((a, b) => (b.at > a.at ? b : a)),
          )
          .to('newest-out', collectSink())
      })
      await rp.run(many).result()
      assert.ok(out.values.length > 0)
    },
  ),
  example(
    [
      ...['KeyedStream.process', 'ProcessedStream.side', 'KeyedStream.dedupe', 'carries', 'valueState', 'listState'],
      ...[
        'mapState',
        'reducingState',
        'ValueState.get',
        'ValueState.set',
        'ValueState.clear',
        'ListState.get',
        'ListState.add',
      ],
      ...[
        'ListState.set',
        'ListState.clear',
        'MapState.get',
        'MapState.has',
        'MapState.set',
        'MapState.delete',
        'MapState.entries',
      ],
      ...[
        'MapState.clear',
        'ReducingState.get',
        'ReducingState.add',
        'ReducingState.clear',
        'ProcessContext.emit',
        'ProcessContext.side',
      ],
      ...[
        'ProcessContext.setTimer',
        'ProcessContext.deleteTimer',
        'ProcessContext.setClockTimer',
        'ProcessContext.deleteClockTimer',
        'ProcessContext.now',
      ],
    ],
    async (rp) => {
      const large = collectSink<Order>()
      const guard = pipeline('guard', (p) => {
        const checked = p
          .from('orders', valueSource(orders), { time: (order) => order.at })
          .keyBy((order) => order.customer)
          .dedupe('once', { within: '1h' })
          .process('check', {
            emits: carries<number>(),
            sides: { large: carries<Order>() },
            state: {
              last: valueState<number>({ ttl: '1d' }),
              recent: listState<number>(),
              days: mapState<number>(),
              total: reducingState<number>((a, b) => a + b),
            },
            onRecord(order: Order, { state, emit, side, setTimer, deleteTimer, setClockTimer, deleteClockTimer, now }) {
              if (order.cents > 400 && state.last.get() === undefined) side('large', order)
              state.last.set(order.at)
              state.recent.add(order.cents)
              if (state.recent.get().length > 10) state.recent.set([order.cents])
              state.days.set('today', (state.days.get('today') ?? 0) + 1)
              if (state.days.has('yesterday')) state.days.delete('yesterday')
              console.assert([...state.days.entries()].length === 1)
              state.total.add(order.cents)
              setTimer(order.at + 3_600_000)
              deleteTimer(order.at + 60_000)
              setClockTimer(now() + 60_000)
              deleteClockTimer(now() + 60_000)
              emit(state.total.get() ?? 0)
            },
            onTimer(_, { state }) {
              state.last.clear()
              state.recent.clear()
              state.days.clear()
              state.total.clear()
            },
          })
        checked.to('totals', collectSink())
        checked.side('large').to('large', large)
      })
      await rp.run(guard).result()
      assert.equal(large.values.length, 1)
    },
  ),
  example(['KeyedStream.joinWindow', 'KeyedStream.joinInterval', 'KeyedStream.joinLatest'], async (rp) => {
    const joined = collectSink<string>()
    const names = [{ customer: 'ann', name: 'Ann', at: 500 }]
    const joins = pipeline('joins', (p) => {
      const a = p.from('orders', valueSource(orders), { time: (o) => o.at }).keyBy((o) => o.customer)
      const b = p.from('names', valueSource(names), { time: (n) => n.at }).keyBy((n) => n.customer)
      a.joinWindow('same-minute', b, tumbling('1m'), (order, { name }) => `${name}: ${order.cents}`).to(
        'window',
        joined,
      )
      a.joinInterval('near', b, { from: -1000, to: 0 }, (order, { name }) => `${name} ${order.cents}`).to(
        'near-out',
        collectSink(),
      )
      a.joinLatest('latest', b, (order, found) => `${found?.name} ${order.cents}`).to('latest-out', collectSink())
    })
    await rp.run(joins).result()
    assert.deepEqual(joined.values, ['Ann: 500'])
  }),
  example(['KeyedStream.joinChanges', 'KeyedStream.processBoth'], async (rp) => {
    const offers = collectSink<string | null>()
    const paid = collectSink<string>()
    const both = pipeline('both', (p) => {
      const of = (name: string, rows: readonly { sku: string; n: number | null }[]) =>
        p.from(name, valueSource(rows)).keyBy(
          ({ sku }) => sku,
          ({ n }) => n,
        )
      const prices = of('prices', [
        { sku: 'pear', n: 200 },
        { sku: 'plum', n: 300 },
      ])
      const stock = of('stock', [
        { sku: 'pear', n: 7 },
        { sku: 'pear', n: null },
      ])
      prices.joinChanges('offers', stock, (cents, left) => `${left} at ${cents}`).to('offers-out', offers)
      prices
        .processBoth('paid', stock, {
          emits: carries<string>(),
          state: { price: valueState<number | null>() },
          onLeft: (cents, { state }) => state.price.set(cents),
          onRight: (left, { state, emit }) => emit(`${left} at ${state.price.get()}`),
        })
        .to('paid-out', paid)
    })
    await rp.run(both).result()
    assert.deepEqual(offers.values, ['7 at 200', null])
    assert.deepEqual(paid.values, ['7 at 200', 'null at 200'])
  }),
  example(['Stream.broadcast'], async (rp) => {
    const priced = collectSink<string>()
    const rated = pipeline('rated', (p) => {
      const rates = p.from('rates', valueSource([{ percent: 19 }]))
      p.from('orders', valueSource(orders))
        .broadcast(
          'rates-known',
          rates,
          reduce((_, b) => b),
          (order, rate) => `${order.customer} ${rate?.percent ?? 'none'}`,
        )
        .to('priced', priced)
    })
    await rp.run(rated).result()
    assert.equal(priced.values.length, 3)
  }),
  example(['tableSink', 'timelineSink'], async (rp) => {
    const totals = table<number>('totals')
    const audit = timeline('audit', {
      initial: () => 0,
      apply: (n, entry: { type: 'paid'; cents: number }) => n + entry.cents,
    })
    const into = pipeline('into', (p) => {
      const paid = p.from('orders', valueSource(orders))
      paid.to(
        'rows',
        tableSink({ table: totals, write: (tx: Transaction<number>, o: Order) => void tx.set(o.customer, o.cents) }),
      )
      paid.to(
        'log',
        timelineSink({
          timeline: audit,
          id: (o: Order) => o.customer,
          entry: (o) => ({ type: 'paid' as const, cents: o.cents }),
        }),
      )
    })
    await rp.run(into).result()
    assert.ok((await rp.open(audit, orders[0]!.customer)).state > 0)
  }),
  example(
    ['httpSink'],
    async (rp) => {
      const posted = pipeline('posted', (p) => {
        // At least once, each time with the same Idempotency-Key.
        p.from('orders', valueSource(orders)).to('out', httpSink({ url: 'https://example.com/orders' }))
      })
      await rp.run(posted).result()
    },
    'compiled',
  ),
  example(
    ['rowSink', 'sqlSink', 'sendSink'],
    async (rp) => {
      const sent: string[] = []
      const sinks = pipeline('sinks', (p) => {
        const all = p.from('orders', valueSource(orders))
        // The table exists: CREATE TABLE orders (customer TEXT, cents INTEGER)
        all.to('rows', rowSink<Order>({ table: 'orders', row: ({ customer, cents }) => ({ customer, cents }) }))
        all.to(
          'sql',
          sqlSink<Order>({
            setup: (sql) => sql.run('CREATE TABLE IF NOT EXISTS cents (n INTEGER)'),
            write: async (sql, written) => {
              for (const { cents } of written) await sql.run('INSERT INTO cents VALUES (?)', cents)
            },
          }),
        )
        all.to(
          'sent',
          sendSink<Order>(async (order, { key }) => void sent.push(`${order.cents} under ${key}`)),
        )
      })
      const { migrations } = await import('reprise/migrate')
      const steps = [{ id: '001-orders', sql: 'CREATE TABLE orders (customer TEXT, cents INTEGER)' }]
      await rp.run(migrations('tables', { steps })).result()
      await rp.run(sinks).result()
      assert.equal(sent.length, 3)
      assert.equal((await rp.sql('SELECT n FROM cents')).length, 3)
    },
    'sqlite',
  ),
  example(['json', 'text', 'keyValue'], async () => {
    const record = { key: new TextEncoder().encode('ann'), value: new TextEncoder().encode('{"cents":5}') }
    assert.deepEqual(json<{ cents: number }>()(record), { cents: 5 })
    assert.equal(text()(record), '{"cents":5}')
    assert.deepEqual(keyValue(text())({ ...record, value: null }), { key: 'ann', value: null })
  }),
  example(['tableSink', 'timelineSink'], async (rp) => {
    const { table } = await import('reprise/table')
    const spent = table<number>('spent')
    const journal = timeline('journal', {
      initial: () => 0,
      apply: (sum: number, entry: { type: 'paid'; cents: number }) => sum + entry.cents,
    })
    const books = pipeline('books', (p) => {
      const all = p.from('orders', valueSource(orders))
      all.to('spent', tableSink({ table: spent, write: (tx, order: Order) => tx.set(order.customer, order.cents) }))
      const entry = ({ cents }: Order) => ({ type: 'paid' as const, cents })
      all.to('journal', timelineSink({ timeline: journal, id: (order: Order) => order.customer, entry }))
    })
    await rp.run(books).result()
    assert.equal((await rp.open(spent)).get('bob'), 100)
    assert.equal((await rp.open(journal, 'ann')).state, 750)
  }),
  example(
    ['httpSink'],
    async (rp) => {
      const posting = pipeline('posting', (p) => {
        p.from('orders', valueSource(orders)).to(
          'posted',
          httpSink<Order>({ url: 'https://example.com/orders', retry: { attempts: 5 } }),
        )
      })
      await rp.run(posting).result()
    },
    'compiled',
  ),
  example(
    [
      'PipelineRun.started',
      'PipelineRun.checkpoint',
      'PipelineRun.savepoint',
      'PipelineRun.stop',
      'PipelineRun.cancel',
      'readPipelineState',
      'comparePipelineState',
    ],
    async (rp) => {
      const endless = pipeline('endless', (p) => {
        p.from(
          'numbers',
          generatedSource((n) => n),
        )
          .keyBy((n) => n % 2)
          .aggregate('counts', count())
          .filter(() => false)
          .to('nothing', collectSink())
      })
      const run = await rp.run(endless).started()
      await run.checkpoint()
      await run.savepoint({ label: 'before the sale' })
      const { status, checkpoint } = await run.stop()
      assert.equal(status, 'stopped')
      assert.equal((await readPipelineState(rp, 'pipeline/endless', 'counts', 1)).length, 1)
      const since = { before: checkpoint!, key: 1 }
      assert.deepEqual(await comparePipelineState(rp, 'pipeline/endless', 'counts', since), [])
      const again = await rp.run(endless).started()
      assert.equal((await again.cancel()).status, 'cancelled')
    },
  ),
  example(
    ['PipelineRun.status', 'PipelineRun.deadLetters', 'PipelineRun.discard', 'PipelineRun.redrive'],
    async (rp) => {
      const strict = pipeline('strict', (p) => {
        p.from(
          'numbers',
          generatedSource((n) => n),
        )
          .map((n) => {
            if (n === 3) throw new Error('3 is not allowed')
            return n
          })
          .filter(() => false)
          .to('good', collectSink())
      })
      const run = await rp.run(strict, { deadLettersMax: 10 }).started()
      while (run.status().records < 10) await run.checkpoint()
      const [letter] = await run.deadLetters()
      assert.equal(letter!.value, 3)
      await run.redrive([letter!.id])
      await run.discard()
      await run.cancel()
    },
  ),
  example(['checkPipelines'], async (rp) => {
    const labelled = pipeline('labelled', (p) => {
      p.from('orders', valueSource(orders))
        .map((order) => ({ ...order, id: Math.random() }))
        .to('out', collectSink())
    })
    const { ok, checked } = await checkPipelines(rp, [labelled])
    assert.equal(ok, false)
    assert.equal(checked[0]!.step, 'map#1')
  }),
  example(['Stream.joinTable'], async (rp) => {
    const rates = table<number>('rates')
    await (await rp.open(rates)).set('ann', 2)
    const out = collectSink<number>()
    const weighed = pipeline('weighed', (p) => {
      p.from('orders', valueSource(orders))
        .joinTable(
          rates,
          (order) => order.customer,
          (order, rate) => order.cents * (rate ?? 1),
        )
        .to('out', out)
    })
    await rp.run(weighed).result()
    assert.deepEqual(out.values, [1000, 100, 500])
  }),
]
