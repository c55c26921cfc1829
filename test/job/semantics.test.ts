// What jobs promise, one promise a test. Memory and SQLite; what differs between stores is proven elsewhere.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { timeline } from '../../src/index.ts'
import {
  consumer,
  consumerLag,
  discardLetters,
  exportProgress,
  GiveUp,
  importProgress,
  job,
  keyRange,
  pages,
  RetryLater,
  readLetters,
  redriveLetters,
  stopJob,
} from '../../src/layers/job/index.ts'
import { onEveryStore } from '../support/worlds.ts'

const numbers = (count: number) => Array.from({ length: count }, (_, i) => i)

onEveryStore(
  'a job',
  (world) => {
    it('never has more items in flight than it may, and keeps the slot until the item is durable', async () => {
      const engine = await (await world()).engine()
      let inFlight = 0
      let most = 0
      const work = job('slots', {
        source: numbers(60),
        concurrency: 5,
        each: async () => {
          inFlight += 1
          most = Math.max(most, inFlight)
          await new Promise((resolve) => setTimeout(resolve, 1))
          inFlight -= 1
        },
      })
      const report = await (await engine.run(work)).result()
      expect(report.done).toBe(60)
      expect(most).toBeLessThanOrEqual(5)
      expect(most).toBeGreaterThan(1)
    })

    it('does items one after another in the order of the source where that is declared', async () => {
      const engine = await (await world()).engine()
      const seen: number[] = []
      const work = job('ordered', {
        source: numbers(20),
        order: 'kept',
        retry: { attempts: 3, backoff: 1 },
        each: async (item: number, { attempt }) => {
          if (item === 7 && attempt < 3) throw new Error('not yet')
          seen.push(item)
        },
      })
      await (await engine.run(work)).result()
      expect(seen).toEqual(numbers(20))
    })

    it('does an item again when its version changed, also back to an earlier one', async () => {
      const engine = await (await world()).engine()
      const seen: string[] = []
      const run = async (items: { id: string; rev: number }[]) => {
        const work = job('versions', {
          source: items,
          key: (item: { id: string; rev: number }) => item.id,
          version: (item) => item.rev,
          each: (item) => void seen.push(`${item.id}${item.rev}`),
        })
        return await (await engine.run(work)).result()
      }
      await run([
        { id: 'a', rev: 1 },
        { id: 'b', rev: 1 },
      ])
      expect(
        await run([
          { id: 'a', rev: 2 },
          { id: 'b', rev: 1 },
        ]),
      ).toMatchObject({ done: 1, skipped: 1 })
      expect(await run([{ id: 'a', rev: 1 }])).toMatchObject({ done: 1 })
      expect(seen).toEqual(['a1', 'b1', 'a2', 'a1'])
    })

    it('does everything again when the version of its code changed', async () => {
      const engine = await (await world()).engine()
      const run = async (version: string) =>
        (await (await engine.run(job('code', { source: ['a', 'b'], version, each: () => undefined }))).result()).done
      expect(await run('1')).toBe(2)
      expect(await run('1')).toBe(0)
      expect(await run('2')).toBe(2)
    })

    it('does one of two items with the same key', async () => {
      const engine = await (await world()).engine()
      const work = job('twins', {
        source: ['x', 'x', 'y', 'x'],
        concurrency: 4,
        each: () => new Promise((resolve) => setTimeout(resolve, 2)),
      })
      expect(await (await engine.run(work)).result()).toMatchObject({ done: 2, skipped: 2 })
    })

    it('gives each item a key for the outside that is the same in every attempt and differs between items', async () => {
      const engine = await (await world()).engine()
      const keys: Record<string, Set<string>> = { a: new Set(), b: new Set() }
      const work = job('outside', {
        source: ['a', 'b'],
        retry: { attempts: 3, backoff: 1 },
        each: async (item: string, context) => {
          keys[item]!.add(context.idempotencyKey)
          if (context.attempt < 3) throw new Error('again')
        },
      })
      await (await engine.run(work)).result()
      expect([...keys.a!]).toHaveLength(1)
      expect([...keys.b!]).toHaveLength(1)
      expect([...keys.a!]).not.toEqual([...keys.b!])
    })

    it('does not repeat an effect whose outcome is recorded, though the item is tried again (G5)', async () => {
      const engine = await (await world()).engine()
      const charged: string[] = []
      const work = job('effects', {
        source: ['order-1'],
        retry: { attempts: 3, backoff: 1 },
        each: async (_: string, context) => {
          const receipt = await context.effect('charge', ({ key }) => {
            charged.push(key)
            return `receipt-${charged.length}`
          })
          if (context.attempt < 2) throw new Error('after the effect')
          expect(receipt).toBe('receipt-1')
        },
      })
      expect(await (await engine.run(work)).result()).toMatchObject({ done: 1, failed: 0 })
      expect(charged).toHaveLength(1)
    })

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

    it('ends an attempt that takes too long, and tells it by its signal', async () => {
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

    it('pauses after failures in a row, probes with one item, and goes on (circuit breaker)', async () => {
      const engine = await (await world()).engine()
      let calls = 0
      let isDown = true
      const work = job('breaker', {
        source: numbers(12),
        concurrency: 3,
        breaker: { failures: 3, pause: 30 },
        retry: { attempts: 50, backoff: 1, maxBackoff: 5 },
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

    it('never starts more items in a window than the rate limit allows', async () => {
      const engine = await (await world()).engine()
      const starts: number[] = []
      const work = job('rate', {
        source: numbers(12),
        concurrency: 12,
        rateLimit: { max: 4, per: 100 },
        each: () => void starts.push(performance.now()),
      })
      await (await engine.run(work)).result()
      for (let i = 4; i < starts.length; i++) expect(starts[i]! - starts[i - 4]!).toBeGreaterThanOrEqual(98)
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

    it('lets a batch say which of its items failed', async () => {
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

    it('keeps results in history if asked, and exports them as JSON Lines', async () => {
      const engine = await (await world()).engine()
      const work = job('results', { source: [1, 2, 3], results: true, each: (item: number) => item * item })
      await (await engine.run(work)).result()
      const lines = []
      for await (const line of exportProgress(engine, 'job/results')) lines.push(line)
      expect(lines.map(({ key, result }) => [key, result])).toEqual([
        ['1', 1],
        ['2', 4],
        ['3', 9],
      ])
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

    it('stops on a message, and goes on with the next run', async () => {
      const at = await world()
      const engine = await at.engine()
      const other = await at.engine()
      const make = (ms: number) =>
        job('asked', {
          source: numbers(200),
          concurrency: 2,
          each: () => new Promise((resolve) => setTimeout(resolve, ms)),
        })
      let isAsked = false
      const run = await engine.run(make(10))
      run.watch((event) => {
        if (event.type === 'progress' && !isAsked) {
          isAsked = true
          void stopJob(other, 'job/asked', 'enough')
        }
      })
      const report = await run.result()
      expect(report.status).toBe('stopped')
      expect(report.done).toBeLessThan(200)
      const rest = await (await engine.run(make(0))).result()
      expect(rest).toMatchObject({ status: 'finished', done: 200 - report.done })
    })

    it('imports the progress of a hand-written script, and exports and imports its own', async () => {
      const engine = await (await world()).engine()
      const script = ['{"id":"a","ok":true}', '{"id":"b","ok":true}', '', '{"ok":false}', 'not json']
      expect(await importProgress(engine, 'moved', script.slice(0, 4))).toEqual({ lines: 3, added: 2, ignored: 1 })
      expect(await importProgress(engine, 'moved', script.slice(0, 2))).toEqual({ lines: 2, added: 0, ignored: 0 })
      const work = (name: string) => job(name, { source: ['a', 'b', 'c'], each: () => undefined })
      expect(await (await engine.run(work('moved'))).result()).toMatchObject({ done: 1, skipped: 2 })
      const lines: string[] = []
      for await (const line of exportProgress(engine, 'job/moved')) lines.push(JSON.stringify(line))
      expect(await importProgress(engine, 'copied', lines)).toMatchObject({ added: 3 })
      expect(await (await engine.run(work('copied'))).result()).toMatchObject({ done: 0, skipped: 3 })
    })

    it('shares a job among engines by shards, each item done once', async () => {
      const at = await world()
      const seen: string[] = []
      const make = () =>
        job('shared', {
          source: numbers(300).map(String),
          shards: 4,
          concurrency: 2,
          each: async (item: string) => {
            seen.push(item)
            await new Promise((resolve) => setTimeout(resolve, 4))
          },
        })
      const engines = [await at.engine({ worker: 'one' }), await at.engine({ worker: 'two' })]
      const reports = await Promise.all(engines.map(async (engine) => (await engine.run(make())).result()))
      expect(seen.sort()).toEqual(numbers(300).map(String).sort())
      expect(reports.reduce((sum, report) => sum + report.done, 0)).toBe(300)
      for (const report of reports) expect(report.status).toBe('finished')
    })

    it('refuses to change its number of shards', async () => {
      const engine = await (await world()).engine()
      const make = (shards: number) => job('fixed', { source: ['a'], shards, each: () => undefined })
      await (await engine.run(make(2))).result()
      for (const shards of [1, 3]) {
        await expect((await engine.run(make(shards))).result()).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
      }
    })

    it('lets a second engine wait for the first, and take over when that one is fenced off', async () => {
      const at = await world()
      const first = await at.engine({ worker: 'first' })
      const second = await at.engine({ worker: 'second' })
      const make = () =>
        job('alone', { source: numbers(40), each: () => new Promise((resolve) => setTimeout(resolve, 5)) })
      const one = await first.run(make())
      const other = await second.run(make())
      const reports = await Promise.all([one.result(), other.result()])
      expect(reports.map((report) => report.done).sort((a, b) => a - b)).toEqual([0, 40])
    })

    it('is run by a worker in another process when it was left unfinished', async () => {
      const at = await world()
      const seen: number[] = []
      const make = (stopAfter: number) =>
        job('worked', {
          source: numbers(30),
          each: (item: number) => {
            seen.push(item)
            if (seen.length === stopAfter) void run?.stop()
          },
        })
      const starter = await at.engine({ worker: 'starter' })
      const run = await starter.run(make(10))
      await run.result()
      await starter.close()
      const worker = await at.engine({ worker: 'worker' })
      worker.work([make(-1)])
      await expect.poll(async () => (await worker.head('job/worked'))?.status, { timeout: 10_000 }).toBe('finished')
      expect([...seen].sort((a, b) => a - b)).toEqual(numbers(30))
    })

    it('tells a source where to go on: cursors set by a generator cover what was yielded before them', async () => {
      const engine = await (await world()).engine()
      const starts: unknown[] = []
      const make = (stopAt: number) =>
        job('generator', {
          source: async function* (cursor: number | undefined, context) {
            starts.push(cursor)
            for (let page = cursor ?? 0; page < 5; page++) {
              for (let i = 0; i < 4; i++) yield page * 4 + i
              context.cursor(page + 1)
            }
          },
          each: (item: number) => {
            if (item === stopAt) void run.stop()
          },
        })
      let run = await engine.run(make(10))
      const first = await run.result()
      run = await engine.run(make(-1))
      const second = await run.result()
      expect(first.done + second.done).toBe(20)
      expect(starts[0]).toBeUndefined()
      expect(starts[1]).toBe(2)
    })

    it('goes on behind the last row of a key range, and finds new rows in the next round', async () => {
      const engine = await (await world()).engine()
      const rows = numbers(10).map((id) => ({ id }))
      const asked: unknown[] = []
      const make = () =>
        job('rows', {
          source: keyRange({
            after: (id: number | undefined, limit) => {
              asked.push(id)
              return rows.filter((row) => row.id > (id ?? -1)).slice(0, limit)
            },
            key: (row) => row.id,
            limit: 4,
          }),
          key: (row: { id: number }) => row.id,
          each: () => undefined,
        })
      expect(await (await engine.run(make())).result()).toMatchObject({ done: 10 })
      rows.push({ id: 10 }, { id: 11 })
      asked.length = 0
      expect(await (await engine.run(make())).result()).toMatchObject({ done: 2, skipped: 0 })
      expect(asked[0]).toBe(9)
    })

    it('passes its input to the source, and remembers it for a resumed run', async () => {
      const engine = await (await world()).engine()
      const inputs: unknown[] = []
      const make = (stop: boolean) =>
        job('input', {
          source: (_cursor: unknown, context) => {
            inputs.push(context.input)
            return numbers(5)
          },
          each: () => {
            if (stop) void run.stop()
          },
        })
      let run = await engine.run(make(true), { since: 'monday' })
      await run.result()
      run = await engine.run(make(false))
      await run.result()
      expect(inputs).toEqual([{ since: 'monday' }, { since: 'monday' }])
    })

    it('ends with the error of its source, and can be run again', async () => {
      const engine = await (await world()).engine()
      let isBroken = true
      const make = () =>
        job('broken-source', {
          source: pages(async (cursor?: number) => {
            if ((cursor ?? 0) === 1 && isBroken) throw new Error('the API is down')
            return {
              items: [(cursor ?? 0) * 2, (cursor ?? 0) * 2 + 1],
              next: (cursor ?? 0) < 2 ? (cursor ?? 0) + 1 : null,
            }
          }),
          each: () => undefined,
        })
      await expect((await engine.run(make())).result()).rejects.toThrow('the API is down')
      isBroken = false
      const report = await (await engine.run(make())).result()
      expect(report.status).toBe('finished')
      const keys: (string | undefined)[] = []
      for await (const line of exportProgress(engine, 'job/broken-source')) keys.push(line.key)
      expect(keys.sort()).toEqual(['0', '1', '2', '3', '4', '5'])
    })

    it('consumes a feed by a named cursor that retention waits for (A6.4)', async () => {
      const engine = await (await world()).engine()
      const account = timeline('account', {
        initial: () => ({ total: 0 }),
        apply: (state, entry: { type: 'added'; by: number }) => ({ total: state.total + entry.by }),
      })
      const alice = await engine.open(account, 'alice')
      const bob = await engine.open(account, 'bob')
      for (let i = 1; i <= 5; i++) await alice.append({ type: 'added', by: i })
      await bob.append({ type: 'added', by: 100 })
      const seen: string[] = []
      const make = () =>
        consumer('sums', {
          from: [account],
          follow: false,
          concurrency: 3,
          retry: { attempts: 1 },
          each: (entry) => {
            seen.push(`${entry.timeline}@${entry.seq}`)
            if (entry.seq === 3) throw new Error('poison')
          },
        })
      expect(await (await engine.run(make())).result()).toMatchObject({ done: 5, failed: 1 })
      expect(seen).toHaveLength(6)
      const [cursor] = (await engine.kernel.store.cursors()).filter((row) => row.name === 'consumer/sums')
      expect(cursor?.owner).toBe('job/sums')
      await alice.append({ type: 'added', by: 6 })
      expect(await consumerLag(engine, make())).toEqual({ runs: 1, isMore: false })
      expect(await (await engine.run(make())).result()).toMatchObject({ done: 1, skipped: 0 })
      expect(seen[6]).toBe('account/alice@6')
      // What the cursor has passed is not remembered by key.
      const { state } = await engine.at(make(), '', { seq: (await engine.head('job/sums'))!.seq })
      expect([state.ahead.size, state.finished.size]).toEqual([0, 0])
    })

    it('a consumer that follows sees what comes later', async () => {
      const engine = await (await world()).engine()
      const log = timeline('log', { initial: () => 0, apply: (state, _entry: { type: 'line' }) => state + 1 })
      const lines = await engine.open(log, 'a')
      const seen: number[] = []
      const run = await engine.run(consumer('tail', { from: ['log/'], each: (entry) => void seen.push(entry.seq) }))
      await lines.append({ type: 'line' })
      await lines.append({ type: 'line' })
      await expect.poll(() => seen.length, { timeout: 10_000 }).toBe(2)
      expect((await run.stop()).status).toBe('stopped')
      expect(seen).toEqual([1, 2])
    })
  },
  ['memory', 'sqlite'],
)

describe('a job on a database of its own', () => {
  it('commits the SQL of an item in the same transaction as the record that it is done', async () => {
    const { open } = await import('../../src/index.ts')
    const folder = mkdtempSync(join(tmpdir(), 'reprise-ride-'))
    try {
      const engine = await open(`sqlite:${join(folder, 'ride.db')}`)
      const setup = job('setup', {
        source: ['table'],
        each: (_: string, context) => context.commit((sql) => sql.run('CREATE TABLE paid (item TEXT PRIMARY KEY)')),
      })
      await (await engine.run(setup)).result()
      const pay = job('pay', {
        source: ['a', 'b', 'c'],
        concurrency: 3,
        retry: { attempts: 1 },
        each: async (item: string, context) => {
          context.commit((sql) => sql.run('INSERT INTO paid VALUES (?)', item))
          if (item === 'b') context.commit((sql) => sql.run('INSERT INTO nowhere VALUES (1)'))
        },
      })
      expect(await (await engine.run(pay)).result()).toMatchObject({ done: 2, failed: 1 })
      let rows: Record<string, unknown>[] = []
      const look = job('look', {
        source: ['x'],
        each: (_: string, context) =>
          context.commit(async (sql) => {
            rows = await sql.all('SELECT item FROM paid ORDER BY item')
          }),
      })
      await (await engine.run(look)).result()
      expect(rows.map((row) => row.item)).toEqual(['a', 'c'])
      await engine.close()
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  })
})
