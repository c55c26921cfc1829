// Keys of records that leave a pipeline, for a receiver that honours them (G5): over cancelled runs and runs of other processes,
// with checkpoints between the sends, several sources and partitions in a different order each time, and changed parallelism,
// each record takes effect once, and no record gets the answer of another. Two planted bugs are found.

import { expect, it } from 'vitest'
import { count, pipeline, type Source, sendSink, tumbling, valueSource } from '../../src/layers/pipeline/index.ts'
import { OutsideLedger } from '../../src/testing/index.ts'
import { pause, until } from '../support/fixture.ts'
import { onEveryStore } from '../support/worlds.ts'

interface Given {
  readonly id: string
  readonly n: number
  readonly at: number
}

const perPartition = 40
let random = 1
/** Another order in every run. */
const chance = () => {
  random = (random * 48271) % 2147483647
  return random / 2147483647
}

/**
 * Partitions whose records have a fixed order, and between which chance decides. `stopAfter`: no records after this many.
 */
function jumbled(name: string, partitions: number): Source<Given> {
  const names = Array.from({ length: partitions }, (_, i) => `p${i}`)
  return {
    partitions: async () => names,
    open: async (from, context) => {
      const own = context.partitions ?? names
      const next = new Map(own.map((each) => [each, Number(from?.get(each) ?? 0)]))
      return {
        partitions: () => own,
        async read(max) {
          await pause(1)
          const left = own.filter((each) => next.get(each)! < perPartition)
          if (left.length === 0) return null
          const partition = left[Math.floor(chance() * left.length)]!
          const first = next.get(partition)!
          const size = Math.min(1 + Math.floor(chance() * 3), max, perPartition - first)
          const values = Array.from({ length: size }, (_, i) => {
            const n = first + i
            // Some are equal to others of their partition.
            return { id: `${name}/${partition}/${Math.floor(n / 2)}`, n, at: n * 1000 }
          })
          next.set(partition, first + size)
          return { partition, values, position: first + size }
        },
        close: async () => undefined,
      }
    },
  }
}

/** The outside call of each record. `lines` of a source: the number of sources and partitions. */
function drawn(ledgers: Record<'call' | 'send' | 'window', OutsideLedger>) {
  return pipeline('out', (p) => {
    const left = p.from('left', jumbled('left', 2), { time: ({ at }) => at })
    const right = p.from('right', jumbled('right', 3), { time: ({ at }) => at })
    const all = left.filter(({ n }) => n % 7 !== 3).union(right)
    all
      .call('call', async (value, { key }) => {
        ledgers.call.receive(key, value)
        return value
      })
      .flatMap((value) => [
        { ...value, part: 1 },
        { ...value, part: 2 },
        { ...value, part: 2 },
      ])
      .to(
        'send',
        sendSink(async (value, { key }) => ledgers.send.receive(key, value)),
      )
    all
      .keyBy(({ id }) => id.split('/')[0]!)
      .window('windows', tumbling('10s'))
      .aggregate(count())
      .to(
        'totals',
        sendSink(async (total, { key }) => ledgers.window.receive(key, total)),
      )
  })
}

const expected = Array.from({ length: 5 * perPartition }, (_, i) => i)
  .map((i) => ({ source: i < 2 * perPartition ? 'left' : 'right', n: i % perPartition }))
  .filter(({ source, n }) => source === 'right' || n % 7 !== 3).length

onEveryStore(
  'keys of a pipeline',
  (world) => {
    const play = async (...planted: string[]) => {
      const w = await world()
      const ledgers = { call: new OutsideLedger(), send: new OutsideLedger(), window: new OutsideLedger() }
      for (let attempt = 0; ; attempt++) {
        const rp = await w.engine({ namespace: `n${planted.join()}`, ports: { planted: new Set(planted) } })
        const options = { checkpoint: { every: 11 }, parallelism: 1 + (attempt % 3) }
        const run = rp.run(drawn(ledgers), options)
        const before = ledgers.send.calls.length
        let status = ''
        const ended = run.result().then(
          (report) => {
            status = report.status
          },
          () => {
            status = 'failed'
          },
        )
        const isOn = () => attempt === 6 || ledgers.send.calls.length < before + 60
        await until(() => status !== '' || !isOn())
        // No more checkpoints: the work after the last one is repeated.
        if (status === '') await run.cancel()
        await ended
        await rp.close()
        if (status === 'completed') return ledgers
        expect(status).toBe('cancelled')
      }
    }

    it('each record is done once, and none is answered for another', async () => {
      const { call, send, window } = await play()
      expect(call.confused).toEqual([])
      expect(send.confused).toEqual([])
      expect(window.confused).toEqual([])
      expect(call.calls.length).toBeGreaterThan(call.done.length)
      expect(send.calls.length).toBeGreaterThan(send.done.length)
      expect(call.done).toHaveLength(expected)
      expect(send.done).toHaveLength(3 * expected)
      expect(window.repeated).toEqual([])
      expect(window.done).toHaveLength((2 * perPartition) / 10)
    })

    it('equal results of one record are apart, however many others lie between them', async () => {
      const rp = await (await world()).engine()
      const ledger = new OutsideLedger()
      const results = [...Array.from({ length: 10_001 }, (_, i) => i), 0]
      const many = pipeline('many', (p) => {
        p.from('one', valueSource(['record']))
          .flatMap(() => results)
          .to(
            'send',
            sendSink(async (value, { key }) => ledger.receive(key, value)),
          )
      })
      await (await rp.run(many)).result()
      expect(ledger.done).toHaveLength(results.length)
    })

    it('a counter of arrival, or the number of a checkpoint, in a key is found', async () => {
      const counted = await play('record-counter-in-key')
      expect(counted.call.confused).not.toEqual([])
      const checkpointed = await play('checkpoint-in-key')
      expect(checkpointed.send.done.length).toBeGreaterThan(3 * expected)
    })
  },
  ['memory', 'sqlite'],
)
