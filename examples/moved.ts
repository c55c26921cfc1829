// Three programs that people write with Kafka Streams and Flink, as pipelines: a word count, orders priced from a table, and an
// alarm with state and a timer. They read arrays, so that they run anywhere; with `kafkaSource()` in the place of `valueSource()`
// the rest stays as it is. docs/guides/moving-pipelines.md shows them beside the originals.

import { open } from 'reprise'
import { carries, collectSink, count, pipeline, type Source, valueSource, valueState } from 'reprise/pipeline'
import { table } from 'reprise/table'

/** Kafka Streams: flatMapValues, groupBy, count. */
export const wordCount = (lines: Source<string>, counts = collectSink<{ key: string | number; value: number }>()) => ({
  counts,
  definition: pipeline('word-count', (p) => {
    p.from('lines', lines)
      .flatMap((line) => line.toLowerCase().split(/\W+/).filter(Boolean))
      .keyBy((word) => word)
      .aggregate('counts', count())
      .to('words', counts)
  }),
})

export interface Order {
  readonly id: number
  readonly sku: string
  readonly pieces: number
}

export const prices = table<{ readonly cents: number }>('prices')

/** Kafka Streams: a KStream joined with a GlobalKTable. */
export const priced = (orders: Source<Order>, out = collectSink<{ id: number; cents: number | null }>()) => ({
  out,
  definition: pipeline('priced', (p) => {
    p.from('orders', orders)
      .joinTable(
        prices,
        (order) => order.sku,
        ({ id, pieces }, price) => ({ id, cents: price ? price.cents * pieces : null }),
      )
      .to('priced', out)
  }),
})

export interface Payment {
  readonly card: string
  readonly cents: number
  readonly at: number
}

const minuteMs = 60_000

/** Flink: a KeyedProcessFunction. A small payment and a large one within a minute raise an alarm. */
export const alarms = (payments: Source<Payment>, out = collectSink<{ card: string; cents: number }>()) => ({
  out,
  definition: pipeline('alarms', (p) => {
    p.from('payments', payments, { time: (payment) => payment.at, outOfOrder: '5s', idle: '30s' })
      .keyBy((payment) => payment.card)
      .process('small-then-large', {
        emits: carries<{ card: string; cents: number }>(),
        state: { small: valueState<number>() },
        onRecord({ card, cents, at }: Payment, { state, emit, setTimer }) {
          const small = state.small.get()
          if (small !== undefined && at - small <= minuteMs && cents > 50_000) emit({ card, cents })
          if (cents >= 100) return state.small.clear()
          state.small.set(at)
          setTimer(at + minuteMs)
        },
        onTimer(time, { state }) {
          const small = state.small.get()
          if (small !== undefined && small + minuteMs <= time) state.small.clear()
        },
      })
      .to('alarms', out)
  }),
})

export async function runExample(url: string) {
  const rp = await open(url)
  try {
    const words = wordCount(valueSource(['To be, or not to be', 'that is the question']))
    await rp.run(words.definition).result()
    const rows = await rp.open(prices)
    await rows.set('pear', { cents: 30 })
    const orders = priced(
      valueSource([
        { id: 1, sku: 'pear', pieces: 2 },
        { id: 2, sku: 'plum', pieces: 1 },
      ]),
    )
    await rp.run(orders.definition).result()
    const paid = alarms(
      valueSource([
        { card: 'a', cents: 50, at: 0 },
        { card: 'b', cents: 60, at: 1_000 },
        { card: 'a', cents: 90_000, at: 30_000 },
        { card: 'b', cents: 90_000, at: 90_000 },
      ]),
    )
    await rp.run(paid.definition).result()
    const last = new Map(words.counts.values.map(({ key, value }) => [key, value]))
    return { to: last.get('to'), priced: orders.out.values, alarms: paid.out.values }
  } finally {
    await rp.close()
  }
}

if (process.argv[1]?.endsWith('moved.ts')) console.log(await runExample('memory:'))
