// A running pipeline as seen from outside: results of windows that end by the clock, the input it waits for, failing
// checkpoints, and its progress.

import { expect, it } from 'vitest'
import { RepriseError } from '../../src/core/errors.ts'
import { reportOf } from '../../src/engine/base/worker.ts'
import { hostOf } from '../../src/engine/host/host.ts'
import { open, type Reprise } from '../../src/index.ts'
import {
  collectSink,
  count,
  pipeline,
  type Sink,
  type Source,
  tumbling,
  valueSource,
} from '../../src/layers/pipeline/index.ts'
import { pause, until } from '../support/fixture.ts'

/** A few records, and then silence. */
function silentAfter<T>(all: readonly T[]): Source<T> {
  return {
    async open(from, { signal }) {
      let at = Number(from?.get('') ?? 0)
      return {
        partitions: () => [''],
        close: async () => undefined,
        async read() {
          if (at < all.length) {
            const given = all.slice(at)
            at = all.length
            return { partition: '', values: given, position: at }
          }
          await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
          return null
        },
      }
    },
  }
}

async function workerRow(rp: Reprise) {
  const { store, worker } = hostOf(rp).kernel
  await worker.beatNow()
  return (await store.workers()).find(({ id }) => id === worker.id)!
}

it.each([{ every: '20ms' as const }, { every: 100 }])(
  'windows that are final because their input is idle are shown without another record, with %o',
  async (checkpoint) => {
    const rp = await open('memory:')
    const [first, second] = [collectSink<unknown>(), collectSink<unknown>()]
    const drawn = pipeline('idle', (p) => {
      const busy = p.from('busy', silentAfter([1000, 2500]), { time: (n) => n })
      const slow = p.from('slow', silentAfter<number>([]), { time: (n) => n, idle: '150ms' })
      busy.to('seen', first)
      busy
        .union(slow)
        .keyBy(() => 'all')
        .window('windows', tumbling(1000))
        .aggregate(count())
        .to('out', second)
    })
    const run = await rp.run(drawn, { checkpoint }).started()
    await until(() => second.values.length === 1)
    expect(second.values).toMatchObject([{ start: 1000, value: 1 }])
    await run.cancel()
    await rp.close()
  },
)

it('A3.4: failing checkpoints are reported with the heartbeat, as doctor reads it, until one is made', async () => {
  const rp = await open('memory:')
  let isBroken = true
  const out: Sink<number> = {
    open: async () => ({
      pending: 0,
      write() {},
      cut: () => async () => {
        if (isBroken) throw new RepriseError('STORE_UNREACHABLE', 'the bucket is gone')
        return null
      },
      async commit() {},
      rejoin() {},
      async close() {},
    }),
  }
  const drawn = pipeline('failing', (p) => {
    p.from('numbers', silentAfter([1, 2, 3])).to('out', out)
  })
  const run = await rp.run(drawn, { checkpoint: { every: '10ms' } }).started()
  await until(() => run.status().checkpoints.failuresInARow >= 2)
  const { failing } = reportOf(await workerRow(rp))
  expect(failing).toMatchObject([
    { timeline: 'pipeline/failing', reason: expect.stringContaining('the bucket is gone') },
  ])
  const before = (await workerRow(rp)).progressAt
  isBroken = false
  await until(() => run.status().checkpoints.recent.length > 0)
  expect(reportOf(await workerRow(rp)).failing).toEqual([])
  // A pipeline appends one entry per checkpoint: that is its progress.
  await until(async () => (await workerRow(rp)).progressAt > before)
  await run.cancel()
  expect(reportOf(await workerRow(rp)).failing).toEqual([])
  await rp.close()
})

it('A3.4: the part that holds records up is reported by name', async () => {
  const rp = await open('memory:')
  const slow: Sink<number> = {
    open: async () => ({
      pending: 0,
      write: () => new Promise<void>((resolve) => setTimeout(resolve, 20)),
      cut: () => async () => null,
      async commit() {},
      rejoin() {},
      async close() {},
    }),
  }
  const drawn = pipeline('held-up', (p) => {
    const numbers = p.from('numbers', valueSource([1, 2, 3]), { time: (n) => n })
    numbers.to('slow', slow)
    numbers.map((n) => n).to('quick', collectSink())
  })
  const run = await rp.run(drawn)
  await run.result()
  const byName = new Map(run.status().operators.map(({ name, blockedMs }) => [name, blockedMs]))
  expect(byName.get('slow')).toBeGreaterThan(0)
  expect([byName.get('quick'), byName.get('map#1')]).toEqual([0, 0])
  expect(run.status().sources[0]!.lagMs).toBeGreaterThan(0)
  await rp.close()
})

it('many calls at a time draw no warning', async () => {
  const warnings: string[] = []
  const onWarning = ({ name }: Error) => void warnings.push(name)
  process.on('warning', onWarning)
  const rp = await open('memory:')
  const out = collectSink<number>()
  const drawn = pipeline('calls', (p) => {
    p.from('numbers', valueSource(Array.from({ length: 200 }, (_, n) => n)))
      .call(
        'slow',
        async (n) => {
          await pause(5)
          return n
        },
        { concurrency: 64 },
      )
      .to('out', out)
  })
  await rp.run(drawn).result()
  expect(out.values.length).toBe(200)
  await rp.close()
  await new Promise((resolve) => setImmediate(resolve))
  process.off('warning', onWarning)
  expect(warnings).toEqual([])
})
