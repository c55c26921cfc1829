// Attempts at items: pauses, limits, timeouts, batches, and the letters of those that failed for good.

import { expect, it } from 'vitest'
import { discardLetters, GiveUp, job, RetryLater, readLetters, redriveLetters } from '../../src/layers/job/index.ts'
import { onEveryStore } from '../support/worlds.ts'
import { frozenClock } from './frozen-clock.ts'

const numbers = (count: number) => Array.from({ length: count }, (_, i) => i)

onEveryStore(
  'a job',
  (world) => {
    it('waits as long as an item asks, without using up attempts', async () => {
      const engine = await (await world()).engine()
      let calls = 0
      const work = job('later', {
        source: ['x'],
        retry: { attempts: 1 },
        each: async () => {
          calls += 1
          if (calls < 4) throw new RetryLater(2)
        },
      })
      expect(await (await engine.run(work)).result()).toMatchObject({ done: 1, failed: 0 })
      expect(calls).toBe(4)
    })

    it('gives up at once where trying again is of no use', async () => {
      const engine = await (await world()).engine()
      let calls = 0
      const work = job('hopeless', {
        source: ['x'],
        retry: { attempts: 5, backoff: 1 },
        each: async () => {
          calls += 1
          throw new GiveUp('no such thing')
        },
      })
      expect(await (await engine.run(work)).result()).toMatchObject({ failed: 1 })
      expect(calls).toBe(1)
    })

    it('ends an attempt that takes too long, and aborts its signal', async () => {
      const engine = await (await world()).engine()
      let wasTold = false
      const work = job('slow', {
        source: ['x'],
        timeout: 10,
        retry: { attempts: 1 },
        each: (_: string, { signal }) =>
          new Promise((_resolve) => {
            signal.addEventListener('abort', () => {
              wasTold = true
            })
          }),
      })
      expect(await (await engine.run(work)).result()).toMatchObject({ failed: 1 })
      expect(wasTold).toBe(true)
      expect((await readLetters(engine, 'job/slow'))[0]!.error.code).toBe('TIMEOUT')
    })

    it('pauses after failures in a row, probes with one item, and continues (circuit breaker)', async () => {
      const engine = await (await world()).engine()
      let calls = 0
      let isDown = true
      const work = job('breaker', {
        source: numbers(12),
        concurrency: 3,
        breaker: { failures: 3, pause: 30 },
        retry: { attempts: 50, backoff: 1, backoffMax: 5 },
        each: async () => {
          calls += 1
          if (calls === 5) isDown = false
          if (isDown) throw new Error('down')
        },
      })
      expect(await (await engine.run(work)).result()).toMatchObject({ done: 12, failed: 0 })
      // 3 in a row open it; those in flight and one probe each pause come on top, no storm of retries.
      expect(calls).toBeLessThan(12 + 12)
    })

    it('never starts more items in a window than the rate limit allows, also when it is stopped and run again at once', async () => {
      const clock = frozenClock()
      const engine = await (await world()).engine({ ports: { clock } })
      const starts: number[] = []
      const make = (stopAfter: number) =>
        job('rate', {
          source: numbers(12),
          concurrency: 12,
          rate: { max: 4, per: 500 },
          each: () => {
            starts.push(clock.elapsed())
            if (starts.length === stopAfter) void run.stop()
          },
        })
      let run = await engine.run(make(3))
      expect((await run.result()).status).toBe('stopped')
      run = await engine.run(make(-1))
      expect((await run.result()).status).toBe('completed')
      clock.stop()
      expect(starts).toHaveLength(12)
      for (let i = 4; i < starts.length; i++) expect(starts[i]! - starts[i - 4]!).toBeGreaterThanOrEqual(500)
    })

    it('does batches, and when one fails finds the bad item among the good', async () => {
      const engine = await (await world()).engine()
      const batches: number[] = []
      const work = job('batches', {
        source: numbers(25),
        batch: { size: 10, wait: 5 },
        retry: { attempts: 2, backoff: 1 },
        eachBatch: async (items: readonly number[]) => {
          batches.push(items.length)
          if (items.includes(13)) throw new Error('13 is bad')
        },
      })
      expect(await (await engine.run(work)).result()).toMatchObject({ done: 24, failed: 1 })
      expect(batches.slice(0, 3)).toEqual([10, 10, 5])
      expect((await readLetters(engine, 'job/batches')).map((letter) => letter.key)).toEqual(['13'])
    })

    it('accepts a batch that reports which of its items failed', async () => {
      const engine = await (await world()).engine()
      const work = job('partial', {
        source: ['a', 'b', 'c'],
        batch: { size: 3 },
        retry: { attempts: 1 },
        eachBatch: async (items: readonly string[], context) => {
          for (const item of items) if (item === 'b') context.fail(item, new Error('only this one'))
        },
      })
      expect(await (await engine.run(work)).result()).toMatchObject({ done: 2, failed: 1 })
    })

    it('makes an item whose result cannot be kept a dead letter, and does the others', async () => {
      const engine = await (await world()).engine()
      const work = job('unkept', {
        source: ['good', 'bad'],
        results: true,
        retry: { attempts: 1 },
        each: (item: string) => (item === 'bad' ? () => 'a function' : item),
      })
      expect(await (await engine.run(work)).result()).toMatchObject({ done: 1, failed: 1 })
    })

    it('re-drives dead letters with an edited item, and discards others for good', async () => {
      const engine = await (await world()).engine()
      const seen: string[] = []
      let isFixed = false
      const make = () =>
        job('letters', {
          source: [
            { id: 'a', url: 'broken' },
            { id: 'b', url: 'broken' },
            { id: 'c', url: 'fine' },
          ],
          key: (item: { id: string; url: string }) => item.id,
          retry: { attempts: 1 },
          each: (item) => {
            seen.push(`${item.id}:${item.url}`)
            if (item.url === 'broken' && !isFixed) throw new Error(`cannot fetch ${item.url}`)
          },
        })
      expect(await (await engine.run(make())).result()).toMatchObject({ done: 1, failed: 2 })
      const letters = await readLetters(engine, 'job/letters')
      expect(letters.map(({ key, item, attempts }) => [key, item, attempts])).toEqual([
        ['a', { id: 'a', url: 'broken' }, 1],
        ['b', { id: 'b', url: 'broken' }, 1],
      ])
      // A dead letter is not tried again by itself.
      expect(await (await engine.run(make())).result()).toMatchObject({ done: 0, skipped: 3 })
      isFixed = false
      await redriveLetters(engine, 'job/letters', ['a'], { a: { id: 'a', url: 'mended' } })
      await discardLetters(engine, 'job/letters', ['b'])
      expect(await readLetters(engine, 'job/letters')).toEqual([])
      expect(await (await engine.run(make())).result()).toMatchObject({ done: 1, failed: 0 })
      expect(seen).toEqual(['a:broken', 'b:broken', 'c:fine', 'a:mended'])
    })
  },
  ['memory', 'sqlite'],
)
