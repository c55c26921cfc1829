// A pipeline from its first record to its end, on every store: its output, the state after a stop, and the continuation in
// another process.

import { expect, it } from 'vitest'
import {
  collectSink,
  count,
  generatedSource,
  pipeline,
  sum,
  tumbling,
  valueSource,
  type WindowResult,
} from '../../src/layers/pipeline/index.ts'
import { onEveryStore } from '../support/worlds.ts'

interface Order {
  readonly customer: string
  readonly cents: number
  readonly at: number
}

const orders: readonly Order[] = [
  { customer: 'ann', cents: 5, at: 1000 },
  { customer: 'bob', cents: 7, at: 2000 },
  { customer: 'ann', cents: 3, at: 59_999 },
  { customer: 'ann', cents: 2, at: 60_000 },
  { customer: 'bob', cents: 0, at: 61_000 },
]

onEveryStore('a pipeline', (world) => {
  it('B7: gives the sums of windows, and is done', async () => {
    const rp = await (await world()).engine()
    const totals = collectSink<WindowResult<number>>()
    const revenue = pipeline('revenue', (p) => {
      p.from('orders', valueSource(orders), { time: (order) => order.at })
        .filter((order) => order.cents > 0)
        .keyBy((order) => order.customer)
        .window('per-minute', tumbling('1m'))
        .aggregate(sum((order) => order.cents))
        .to('totals', totals)
    })
    const report = await rp.run(revenue).result()
    expect(report).toMatchObject({ status: 'completed', records: 5, deadLetters: 0 })
    expect(totals.values).toEqual([
      { key: 'ann', start: 0, end: 60_000, value: 8 },
      { key: 'bob', start: 0, end: 60_000, value: 7 },
      { key: 'ann', start: 60_000, end: 120_000, value: 2 },
    ])
    // Once done, it stays done: nothing is read a second time.
    expect(await rp.run(revenue).result()).toMatchObject({ status: 'completed', records: 5 })
    expect(totals.values).toHaveLength(3)
  })

  it('is drained also on a request before records flow, and reports why it did not start', async () => {
    const rp = await (await world()).engine()
    const define = (name: string) => {
      const out = collectSink<WindowResult<number>>()
      const counted = pipeline('drained', (p) => {
        p.from(
          'numbers',
          generatedSource((n) => n),
          { time: () => 0 },
        )
          .keyBy(() => 'all')
          .window(name, tumbling('1m'))
          .aggregate(count())
          .to('counts', out)
      })
      return { counted, out }
    }
    const first = define('per-minute')
    const run = await rp.run(first.counted).started()
    const { checkpoint } = await run.stop()
    const other = rp.run(define('renamed').counted, { from: checkpoint! })
    await expect(other.started()).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    const drained = define('per-minute')
    expect(await rp.run(drained.counted, { from: checkpoint! }).stop({ drain: true })).toMatchObject({
      status: 'completed',
    })
    // All records fall into one minute, and nothing else would end it.
    expect(drained.out.values).toHaveLength(1)
  })

  it('A9.3: stops with a savepoint, and another process continues with its state', async () => {
    const w = await world()
    const rp = await w.engine()
    const seen: number[] = []
    const define = (total: number, out = collectSink<{ key: string | number; value: number }>()) => {
      const counts = pipeline('counts', (p) => {
        p.from(
          'numbers',
          generatedSource((n) => n, { count: total }),
        )
          .map((n) => {
            seen.push(n)
            return n % 3
          })
          .keyBy((n) => n)
          .aggregate('per-rest', count())
          .to('counts', out)
      })
      return { counts, out }
    }
    const first = define(Number.POSITIVE_INFINITY)
    const run = await rp.run(first.counts).started()
    const stopped = await run.stop({ reason: 'before the move' })
    expect(stopped.status).toBe('stopped')
    expect(stopped.records).toBe(seen.length)
    expect(first.out.values).toHaveLength(stopped.records)
    const kept = async () => (await rp.checkpoints('pipeline/counts')).filter(({ isPinned }) => isPinned).length
    expect(await kept()).toBe(1)
    const other = await w.engine()
    const second = define(stopped.records + 3)
    const report = await other.run(second.counts, {}).result()
    expect(report).toMatchObject({ status: 'completed', records: stopped.records + 3 })
    expect(seen).toEqual(Array.from({ length: stopped.records + 3 }, (_, i) => i))
    expect(second.out.values.map(({ value }) => value).sort((a, b) => a - b)).toEqual(
      [0, 1, 2].map((i) => Math.floor((stopped.records + i) / 3) + 1).sort((a, b) => a - b),
    )
    // One with a label is kept until it is released.
    expect(await kept()).toBe(1)
  })

  it('A8.4: leaves no unrequested savepoint behind', async () => {
    const rp = await (await world()).engine()
    const endless = pipeline('endless', (p) => {
      p.from(
        'numbers',
        generatedSource((n) => n),
      )
        .filter((n) => n < 0)
        .to('out', collectSink())
    })
    for (let i = 0; i < 3; i++) expect((await (await rp.run(endless).started()).stop()).status).toBe('stopped')
    expect((await rp.checkpoints('pipeline/endless')).filter(({ isPinned }) => isPinned)).toHaveLength(1)
    const stopped = new AbortController()
    stopped.abort()
    const ended = await rp.run(endless, { signal: stopped.signal }).result()
    expect(['cancelled', 'stopped']).toContain(ended.status)
  })

  it('A7.1: a standby continues when the other releases it, and can be stopped while it waits', async () => {
    const w = await world()
    const [one, two] = [await w.engine(), await w.engine()]
    const define = () =>
      pipeline('standby', (p) => {
        p.from(
          'numbers',
          generatedSource((n) => n),
        )
          .filter((n) => n < 0)
          .to('out', collectSink())
      })
    const first = await one.run(define(), {}).started()
    const waiting = await two.run(define(), { wait: '1m' })
    expect((await waiting.stop()).status).toBe('cancelled')
    const next = await two.run(define(), { wait: '1m' })
    const { records } = await first.stop()
    await next.started()
    expect((await next.stop()).records).toBeGreaterThanOrEqual(records)
  })
})
