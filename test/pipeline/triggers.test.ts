// Results that do not wait for the watermark, and values that one stream broadcasts to all records of another.

import { expect, it } from 'vitest'
import { open } from '../../src/index.ts'
import type { Batch } from '../../src/layers/pipeline/batch.ts'
import {
  collectSink,
  count,
  every,
  pipeline,
  reduce,
  type Source,
  session,
  sum,
  tumbling,
  type WindowResult,
} from '../../src/layers/pipeline/index.ts'
import type { OperatorContext } from '../../src/layers/pipeline/operator.ts'
import { counted } from '../../src/layers/pipeline/operators/count-window.ts'
import { pause, until } from '../support/fixture.ts'

/** Emits the pushed records, in order, and waits for more; it ends once `isOver`. */
class Pushed<T> implements Source<T> {
  readonly all: T[] = []
  isOver = false

  async open(from: ReadonlyMap<string, unknown> | null, { signal }: { readonly signal: AbortSignal }) {
    let at = Number(from?.get('') ?? 0)
    return {
      partitions: () => [''],
      close: async () => undefined,
      read: async () => {
        while (at >= this.all.length && !this.isOver && !signal.aborted) {
          await pause(2)
        }
        if (at >= this.all.length) return null
        const values = this.all.slice(at)
        at = this.all.length
        return { partition: '', values, position: at }
      },
    }
  }
}

it.each([
  ['tumbling', tumbling(1000), { start: 1000, end: 2000 }],
  ['session', session(1000), { start: 1100, end: 2300 }],
] as const)(
  '%s windows give early results while they are open, also after a restart, and the last one alone is final',
  async (_, windows, bounds) => {
    const rp = await open('memory:')
    const source = new Pushed<number>()
    const out = collectSink<WindowResult<number>>()
    const drawn = pipeline('early', (p) => {
      p.from('times', source, { time: (n) => n })
        .keyBy(() => 'all')
        .window('windows', windows, { early: '20ms' })
        .aggregate(count())
        .to('out', out)
    })
    const options = { checkpoint: { every: '5ms' } } as const
    const run = await rp.run(drawn, options).started()
    source.all.push(1100)
    await until(() => out.values.length === 1)
    expect(out.values[0]).toMatchObject({ key: 'all', start: bounds.start, value: 1, isEarly: true })
    source.all.push(1300)
    await until(() => out.values.length === 2)
    expect(out.values[1]).toEqual({ key: 'all', ...bounds, value: 2, isEarly: true })
    await run.stop()
    // Unchanged results are emitted early once more after a restart.
    const again = await rp.run(drawn, options).started()
    await until(() => out.values.length === 3)
    expect(out.values[2]).toEqual({ key: 'all', ...bounds, value: 2, isEarly: true })
    source.all.push(9000)
    source.isOver = true
    await again.result()
    const final = out.values.filter(({ isEarly }) => !isEarly)
    expect(final.map(({ start, value }) => [start, value])).toEqual([
      [bounds.start, 2],
      [9000, 1],
    ])
    await rp.close()
  },
)

it('a window by count ends early when its first record is too old, also over a restart', async () => {
  const rp = await open('memory:')
  const source = new Pushed<number>()
  const out = collectSink<{ readonly key: unknown; readonly value: number }>()
  const drawn = pipeline('counted', (p) => {
    p.from('numbers', source)
      .keyBy((n) => n % 2)
      .window('threes', every(3), { within: '60ms' })
      .aggregate(sum((n) => n))
      .to('out', out)
  })
  const options = { checkpoint: { every: '5ms' } } as const
  const run = await rp.run(drawn, options).started()
  source.all.push(1, 3, 5, 7)
  await until(() => out.values.length === 2)
  expect(out.values).toEqual([
    { key: 1, value: 9 },
    { key: 1, value: 7 },
  ])
  source.all.push(2)
  await until(() => run.status().records === 5)
  await run.stop()
  const again = await rp.run(drawn, options).started()
  await until(() => out.values.length === 3)
  expect(out.values[2]).toEqual({ key: 0, value: 2 })
  await again.cancel()
  await rp.close()
})

it('every record meets the broadcast values, whatever its key, also over a restart and a new division', async () => {
  const rp = await open('memory:')
  const orders = new Pushed<{ readonly currency: string; readonly cents: number }>()
  const rates = new Pushed<Readonly<Record<string, number>>>()
  const out = collectSink<number | null>()
  const drawn = pipeline('rates', (p) => {
    const told = p.from('rates', rates)
    p.from('orders', orders)
      .broadcast(
        'converted',
        told,
        reduce((a, b) => ({ ...a, ...b })),
        ({ currency, cents }, known) => {
          if (cents < 0) throw new RangeError('a refund')
          return known?.[currency] === undefined ? null : cents * known[currency]
        },
      )
      .keyBy((cents) => String(cents))
      .dedupe('once', { within: '1h' })
      .to('out', out)
  })
  const options = (parallelism: number) => ({ parallelism, checkpoint: { every: '5ms' as const } })
  const run = await rp.run(drawn, options(2)).started()
  orders.all.push({ currency: 'eur', cents: 1 })
  await until(() => out.values.length === 1)
  rates.all.push({ eur: 2 }, { usd: 3 })
  await until(() => run.status().operators.find(({ name }) => name === 'converted')!.records === 3)
  orders.all.push({ currency: 'eur', cents: 10 }, { currency: 'usd', cents: -1 }, { currency: 'usd', cents: 10 })
  await until(() => out.values.length === 3)
  await run.stop()
  const again = await rp.run(drawn, options(3)).started()
  orders.all.push({ currency: 'usd', cents: 20 }, { currency: 'eur', cents: 10 })
  orders.isOver = true
  rates.isOver = true
  expect(await again.result()).toMatchObject({ status: 'completed', deadLetters: 1 })
  expect(out.values).toEqual([null, 20, 30, 60])
  await rp.close()
})

it('a key that filled one window and began another has one result when both would have ended by the clock', () => {
  let now = 0
  const given: unknown[] = []
  const output = { batch: ({ values }: Batch) => void given.push(...values), watermark() {}, idle() {} }
  const clock = { now: () => now, elapsed: () => now, after: () => () => undefined, soon() {}, next() {} }
  const { inputs, tick } = counted(2, 1000, count(), false)([output], { clock } as unknown as OperatorContext)
  const record = { values: ['x'], times: null, keys: ['a'] }
  for (now of [0, 10, 20]) inputs[0]!.batch(record)
  tick!(5000)
  expect(given).toEqual([
    { key: 'a', value: 2 },
    { key: 'a', value: 1 },
  ])
})
