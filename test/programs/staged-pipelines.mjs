// Pipelines with two keys whose operators run on worker threads. Each thread loads this module again. The built library is
// imported as the tests import it, so that both use the same classes.

import { existsSync, writeFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { isMainThread } from 'node:worker_threads'
import {
  carries,
  collectSink,
  count,
  generatedSource,
  pipeline,
  rowSink,
  sum,
  tumbling,
  valueState,
} from '../../dist/layers/pipeline/index.js'

export const records = Number(process.env.REPRISE_STAGED_RECORDS ?? 3000)
/** The number of records that the source returns at most; the program may raise it. */
export const gate = { limit: Number.POSITIVE_INFINITY, batch: 64 }
export const orders = (n) => ({ n, user: `user-${(n * 7919) % 53}`, item: `item-${n % 11}`, at: n * 10 - (n % 3) * 4 })

/** As many records at a time as `gate.batch`, up to `gate.limit`. */
const gated = {
  async open(from, context) {
    const inner = await generatedSource(orders, { count: records }).open(from, context)
    let at = Number(from?.get('') ?? 0)
    return {
      partitions: () => inner.partitions(),
      close: () => inner.close(),
      async read() {
        while (at >= gate.limit && at < records && !context.signal.aborted) await sleep(5)
        if (context.signal.aborted) return null
        const batch = await inner.read(Math.max(1, Math.min(gate.batch, gate.limit - at)))
        if (batch !== null) at += batch.values.length
        return batch
      },
    }
  },
}

const timed = { time: ({ at }) => at, outOfOrder: 8 }
export const seen = collectSink()
export const windows = collectSink()

/** Numbers the orders of each user; then counts the orders of each item, in windows, and checks the numbers. */
function draw(p) {
  const numbered = p
    .from('orders', gated, timed)
    .keyBy(({ user }) => user)
    .process('numbered', {
      emits: carries(),
      state: { count: valueState() },
      onRecord(order, { state, emit }) {
        const nth = (state.count.get() ?? 0) + 1
        state.count.set(nth)
        emit({ ...order, nth })
      },
    })
  const byItem = numbered.keyBy(({ item }) => item)
  return { numbered, byItem, windowed: byItem.window('windows', tumbling(700)).aggregate(sum(({ nth }) => nth)) }
}

export const staged = pipeline(
  'staged',
  (p) => {
    const { byItem, windowed } = draw(p)
    byItem.to('seen', seen)
    windowed.to('out', windows)
  },
  { module: import.meta.url },
)

const deaths = process.env.REPRISE_STAGED_DEATHS

/** Ends a thread once for each number, without a trace in the thread's state. */
function dieOnce(n) {
  if (deaths === undefined || isMainThread || existsSync(`${deaths}-${n}`)) return
  writeFileSync(`${deaths}-${n}`, '')
  process.exit(3)
}

/** The same into tables of the store. */
export const stored = pipeline(
  'stored',
  (p) => {
    const { numbered, windowed } = draw(p)
    numbered.to(
      'numbers',
      rowSink({
        table: 'numbered',
        row: ({ n, user, nth }) => ({ n, name: user, nth }),
        setup: 'CREATE TABLE IF NOT EXISTS numbered (n BIGINT, name TEXT, nth BIGINT)',
      }),
    )
    windowed
      .map((result) => {
        dieOnce(result.start)
        return result
      })
      .to(
        'totals',
        rowSink({
          table: 'totals',
          row: ({ key, start, value }) => ({ item: key, start_ms: start, total: value }),
          setup: 'CREATE TABLE IF NOT EXISTS totals (item TEXT, start_ms BIGINT, total BIGINT)',
        }),
      )
  },
  { module: import.meta.url, checkpoint: { every: '20ms' } },
)

export const failing = pipeline(
  'failing',
  (p) => {
    p.from('orders', gated, timed)
      .keyBy(({ user }) => user)
      .process('picky', {
        emits: carries(),
        state: { count: valueState() },
        onRecord({ n }, { state, emit }) {
          if (n % 500 === 7 && !existsSync(process.env.REPRISE_STAGED_MENDED)) throw new Error('not today')
          state.count.set((state.count.get() ?? 0) + 1)
          emit(n)
        },
      })
      .keyBy((n) => n % 5)
      .aggregate('counts', count())
      .to('out', windows)
  },
  { module: import.meta.url },
)

/** One record blocks its thread until a file exists. */
export const hanging = pipeline(
  'hanging',
  (p) => {
    p.from('orders', gated, timed)
      .keyBy(({ n }) => n % 5)
      .process('blocked', {
        emits: carries(),
        onRecord({ n }, { emit }) {
          while (n === 1000 && !existsSync(process.env.REPRISE_STAGED_MENDED)) {
            Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20)
          }
          emit(n)
        },
      })
      .keyBy((n) => n % 5)
      .aggregate('counts', count())
      .to('out', windows)
  },
  { module: import.meta.url },
)

/** Work without keys on every thread, and then keys. */
export const spread = pipeline(
  'spread',
  (p) => {
    const scored = p
      .from('orders', gated, timed)
      .rebalance()
      .map((order) => {
        if (order.n === 77) throw new Error('no score')
        return { ...order, score: order.n * 2, isElsewhere: !isMainThread }
      })
      .filter(({ n }) => n % 10 !== 9)
    scored.to('seen', seen)
    scored
      .keyBy(({ item }) => item)
      .window('windows', tumbling(700))
      .aggregate(sum(({ score }) => score))
      .to('out', windows)
  },
  { module: import.meta.url },
)

/** Branches that meet behind different numbers of keys. */
export const disordered = pipeline(
  'disordered',
  (p) => {
    const byUser = p.from('orders', gated, timed).keyBy(({ user }) => user)
    const totals = byUser.aggregate('totals', count()).keyBy(({ key }) => String(key))
    byUser.joinLatest('with-total', totals, (order, total) => [order.n, total?.value]).to('out', windows)
  },
  { module: import.meta.url },
)

export const unsendable = pipeline(
  'unsendable',
  (p) => {
    p.from('orders', gated)
      .map((order) => ({ ...order, run: () => order }))
      .keyBy(({ user }) => user)
      .aggregate('counts', count())
      .to('out', windows)
  },
  { module: import.meta.url },
)
