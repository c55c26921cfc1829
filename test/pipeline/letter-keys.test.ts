// Keys of dead letters (docs/guides/keys.md): a redriven record, also in a later run, has the key of its first try; two records
// have two keys, also if they came from one record with equal results.

import { expect, it } from 'vitest'
import { pipeline, type Source, sendSink } from '../../src/layers/pipeline/index.ts'
import { until } from '../support/fixture.ts'
import { onEveryStore } from '../support/worlds.ts'

/** Gives these values, and stays open. */
function staying<T>(values: readonly T[]): Source<T> {
  return {
    open: async (from) => {
      let at = Number(from?.get('0') ?? 0)
      return {
        partitions: () => ['0'],
        async read(max) {
          if (at >= values.length) await new Promise((resolve) => setTimeout(resolve, 5))
          const read = values.slice(at, at + max)
          at += read.length
          return { partition: '0', values: read, position: at }
        },
        close: async () => undefined,
      }
    },
  }
}

onEveryStore(
  'a record that was set aside',
  (world) => {
    it('is called for under the key of its first try, by a later run as well', async () => {
      const w = await world()
      const seen: string[] = []
      let isAnswered = false
      const charges = pipeline('charges', (p) => {
        p.from('orders', staying([{ order: 'o1', cents: 500 }]))
          .flatMap((order) => [order, order])
          .call(
            'charge',
            async (_order, { key }) => {
              seen.push(key)
              if (!isAnswered) throw new Error('the answer was lost')
              return key
            },
            { retry: { attempts: 2, backoff: '1ms' } },
          )
          .to(
            'out',
            sendSink(async (charged, { key }) => void sent.set(charged, key)),
          )
      })
      const sent = new Map<string, string>()
      const one = await w.engine()
      const first = await one.run(charges, {}).started()
      await until(() => first.status().deadLetters === 2)
      const firstTries = new Set(seen)
      expect(firstTries.size).toBe(2)
      await first.stop()
      await one.close()
      isAnswered = true
      const second = await (await w.engine()).run(charges, {}).started()
      expect(await second.redrive()).toBe(2)
      await until(() => second.status().deadLetters === 0 && sent.size === 2)
      expect(new Set(seen)).toEqual(firstTries)
      await second.stop()
    })

    it('is sent under the key that it has where it does not fail, however often it is redriven', async () => {
      const rp = await (await world()).engine()
      const keys: string[] = []
      let isBad = false
      const drawn = pipeline('mended', (p) => {
        p.from('numbers', staying([1, 2]))
          .map((n) => {
            if (n === 2 && isBad) throw new TypeError('two is bad')
            return n * 10
          })
          .to(
            'out',
            sendSink(async (n, { key }) => void (n === 20 && keys.push(key))),
          )
      })
      const options = { checkpoint: { every: 1_000_000 } }
      // 1. Sent, and no checkpoint has it.
      const direct = await rp.run(drawn, options).started()
      await until(() => keys.length === 1)
      await direct.cancel()
      // 2. The record fails.
      isBad = true
      const failing = await rp.run(drawn, options).started()
      await until(() => failing.status().deadLetters === 1)
      await failing.stop()
      isBad = false
      // 3. Redriven and sent, and no checkpoint has it; then once more.
      for (const ending of ['cancel', 'stop'] as const) {
        const run = await rp.run(drawn, options).started()
        const before = keys.length
        expect(await run.redrive()).toBe(1)
        await until(() => keys.length > before)
        await run[ending]()
      }
      expect(keys).toHaveLength(3)
      expect(new Set(keys).size).toBe(1)
    })

    it('has another key than its twin: two parts of one record that give the same', async () => {
      const rp = await (await world()).engine()
      const keys: string[] = []
      let isMended = false
      const twins = pipeline('twins', (p) => {
        p.from('numbers', staying([1]))
          .flatMap(() => ['a', 'b', 'c'])
          .map((part) => {
            if (part !== 'c' && !isMended) throw new TypeError(`${part} is bad`)
            return 'same'
          })
          .to(
            'out',
            sendSink(async (_part, { key }) => void keys.push(key)),
          )
      })
      const run = await rp.run(twins, { checkpoint: { every: 1 } }).started()
      await until(() => run.status().deadLetters === 2)
      isMended = true
      await run.redrive()
      await run.checkpoint()
      await run.stop()
      expect(keys).toHaveLength(3)
      expect(new Set(keys).size).toBe(3)
    })
  },
  ['memory', 'sqlite'],
)
