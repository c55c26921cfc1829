// Jobs over external queues: the end of a round, stops, dead letters, poison that kills the process, and refusals.

import { expect, it } from 'vitest'
import { hostOf } from '../../src/engine/host/host.ts'
import { GiveUp, job, logSource, queueSource, readLetters, text } from '../../src/layers/job/index.ts'
import { valueSource } from '../../src/layers/pipeline/index.ts'
import { FakeQueue } from '../../src/testing/index.ts'
import { JobProcesses } from '../../src/testing/queue/job-process.ts'
import { until } from '../support/fixture.ts'
import { onEveryStore } from '../support/worlds.ts'

const decode = text()
const texts = (count: number) => Array.from({ length: count }, (_, n) => `text-${n}`)
const identity = (item: string) => item

onEveryStore(
  'a job over a queue',
  (world) => {
    it('C3: runs until it is stopped, resumes, and skips a key that another message repeats', async () => {
      const engine = await (await world()).engine()
      const queue = new FakeQueue()
      const seen: string[] = []
      const work = job('mails', {
        source: queueSource(queue, { decode }),
        concurrency: 4,
        key: identity,
        each: (item) => void seen.push(item),
      })
      queue.send(texts(20))
      const run = await engine.run(work)
      await until(() => queue.size === 0)
      queue.send(['text-3', 'text-20'])
      await until(() => queue.size === 0)
      expect(await run.stop()).toMatchObject({ status: 'stopped', done: 21, skipped: 1 })
      expect((await hostOf(engine).head('job/mails'))?.status).toBe('stopped')
      queue.send(['text-4', 'text-21'])
      const again = await engine.run(work)
      await until(() => queue.size === 0)
      expect(await again.stop()).toMatchObject({ done: 1, skipped: 1 })
      expect(seen.sort()).toEqual(texts(22).sort())
    })

    it('C3: completes once the queue has been empty for the stated time, and the next run is another round', async () => {
      const engine = await (await world()).engine()
      const queue = new FakeQueue({ holdMs: 60_000 })
      const work = job('rounds', {
        source: queueSource(queue, { decode, untilEmptyFor: 50 }),
        eachBatch: () => undefined,
        batch: { size: 3, wait: 20 },
      })
      queue.send(texts(10))
      expect(await engine.run(work).result()).toMatchObject({ status: 'completed', done: 10, round: 1 })
      queue.send(['text-10'])
      expect(await engine.run(work).result()).toMatchObject({ status: 'completed', done: 1, round: 2 })
      expect(queue.size).toBe(0)
    })

    it('C3: a stop closes the connection under a request for messages, and that is no failure', async () => {
      const engine = await (await world()).engine()
      const queue = new FakeQueue()
      const connect = queue.connect.bind(queue)
      queue.connect = async () => {
        const connection = await connect()
        let cut = (_: Error): void => undefined
        const pending = new Promise<never>((_, reject) => {
          cut = reject
        })
        pending.catch(() => undefined)
        return {
          ...connection,
          // As Redis: the request notices the signal too late, and the end of its connection at once.
          receive: async (max) => {
            const received = await connection.receive(max, 1, new AbortController().signal)
            return received.length > 0 ? received : await pending
          },
          close: async () => {
            cut(new Error('Disconnects client'))
            await connection.close()
          },
        }
      }
      const problems: unknown[] = []
      engine.events.on('problem', (problem) => void problems.push(problem))
      queue.send(texts(5))
      const work = job('cut', { source: queueSource(queue, { decode }), key: identity, each: () => undefined })
      const run = await engine.run(work)
      await until(() => queue.size === 0)
      expect(await run.stop()).toMatchObject({ status: 'stopped', done: 5 })
      expect(problems).toEqual([])
    })

    it('C3: never holds more messages than `prefetch`, and redrives dead letters while the queue is empty', async () => {
      const engine = await (await world()).engine()
      const queue = new FakeQueue()
      let most = 0
      let isBroken = true
      const connect = queue.connect.bind(queue)
      let held = 0
      queue.connect = async () => {
        const connection = await connect()
        return {
          ...connection,
          receive: async (max, waitMs, signal) => {
            const received = await connection.receive(max, waitMs, signal)
            held += received.length
            most = Math.max(most, held)
            return received
          },
          acknowledge: async (deliveries) => {
            held -= deliveries.length
            await connection.acknowledge(deliveries)
          },
        }
      }
      queue.send([...texts(60), 'bad'])
      const work = job('redriven', {
        source: queueSource(queue, { decode, prefetch: 5 }),
        concurrency: 2,
        key: identity,
        each: (item) => {
          if (item === 'bad' && isBroken) throw new GiveUp('bad')
        },
      })
      const run = await engine.run(work)
      await until(() => queue.size === 0)
      expect(most).toBeLessThanOrEqual(5)
      expect((await readLetters(engine, 'job/redriven')).map(({ key }) => key)).toEqual(['bad'])
      isBroken = false
      await run.redrive()
      await until(() => run.status().done === 61)
      expect(await run.deadLetters()).toEqual([])
      await run.stop()
    })

    it('C3: a message whose key cannot be computed becomes a dead letter, which can be redriven after an edit', async () => {
      const engine = await (await world()).engine()
      const queue = new FakeQueue()
      const seen: string[] = []
      const work = job('keyed', {
        source: queueSource(queue, {
          decode: (message) => JSON.parse(decode(message)) as { id?: string },
          untilEmptyFor: 20,
        }),
        key: (item) => item.id as string,
        each: (item) => void seen.push(String(item.id)),
      })
      queue.send(['{"id":"a"}', '{}', 'not json', '{"id":"b"}'])
      const run = await engine.run(work)
      expect(await run.result()).toMatchObject({ done: 2, failed: 2, dead: 2 })
      expect(queue.size).toBe(0)
      const letters = await run.deadLetters()
      expect(letters.map(({ unread }) => unread)).toEqual([true, true])
      const [first] = letters
      await run.discard([letters[1]!.key])
      await run.redrive([first!.key], { edits: { [first!.key]: { id: 'c' } } })
      expect(await engine.run(work).result()).toMatchObject({ done: 1, dead: 0 })
      expect(seen).toEqual(['a', 'b', 'c'])
    })
  },
  ['memory', 'sqlite'],
)

it('C3: a message that kills the process again and again becomes a dead letter, also if it returns late', async () => {
  const processes = new JobProcesses()
  const queue = new FakeQueue({ holdMs: 100 })
  queue.send([...texts(5), 'poison', ...texts(40).slice(5)])
  let deaths = 0
  const seen: string[] = []
  for (let isOver = false; !isOver; ) {
    const process = processes.start()
    const work = job('poisoned', {
      source: queueSource(queue, { decode, untilEmptyFor: 300, prefetch: 4 }),
      concurrency: 2,
      crashesMax: 3,
      key: identity,
      each: async (item) => {
        if (item === 'poison') {
          deaths += 1
          process.die()
          await new Promise<never>(() => undefined)
        }
        seen.push(item)
      },
    })
    const run = await process.outlive(process.rp.run(work))
    if (run === 'died') continue
    const report = await process.outlive(run.result())
    if (report === 'died') continue
    expect(report).toMatchObject({ status: 'completed', dead: 1 })
    isOver = true
  }
  // The first death leaves no record; each later one does.
  expect(deaths).toBeLessThanOrEqual(4)
  expect([...new Set(seen)].sort()).toEqual(texts(40).sort())
  expect(queue.size).toBe(0)
  await processes.close()
}, 30_000)

it('C3: the run ends with BROKER_AWAY after `awayFor`, loses nothing, and resumes', async () => {
  const processes = new JobProcesses()
  const { rp } = processes.start()
  const queue = new FakeQueue()
  queue.send(texts(3))
  queue.goAway()
  const work = job('away', {
    source: queueSource(queue, { decode, awayFor: 100, untilEmptyFor: 20 }),
    each: () => undefined,
  })
  await expect(rp.run(work).result()).rejects.toMatchObject({ code: 'BROKER_AWAY' })
  queue.comeBack()
  expect(await rp.run(work).result()).toMatchObject({ status: 'completed', done: 3 })
  await processes.close()
})

it('C3: an async decode or id ends the job with its name, and loses no message', async () => {
  const processes = new JobProcesses()
  const { rp } = processes.start()
  const queue = new FakeQueue()
  queue.send(texts(3))
  const seen: string[] = []
  const refused = (place: string) => ({
    code: 'ASYNC_CALLBACK',
    message: expect.stringMatching(`^${place} returned a promise`),
  })
  const decoding = job('decoding', {
    source: queueSource(queue, { decode: async (message) => decode(message), untilEmptyFor: 20 }),
    each: (item) => void seen.push(String(item)),
  })
  await expect(rp.run(decoding).result()).rejects.toMatchObject(refused('decode'))
  const naming = job('naming', {
    // @ts-expect-error: refused by the compiler
    source: logSource(valueSource(['a', 'b', 'c']), { id: async (item: string) => item }),
    each: (item: string) => void seen.push(item),
  })
  await expect(rp.run(naming).result()).rejects.toMatchObject(refused('id'))
  expect(seen).toEqual([])
  const mended = job('mended', {
    source: queueSource(queue, { decode, untilEmptyFor: 20 }),
    each: (item) => void seen.push(item),
  })
  expect(await rp.run(mended).result()).toMatchObject({ done: 3 })
  expect(seen.sort()).toEqual(texts(3))
  await processes.close()
})

it('C3: a job over a queue has one shard', () => {
  const source = queueSource(new FakeQueue(), { decode })
  const refused = expect.objectContaining({ code: 'INVALID_ARGUMENT' })
  expect(() => job('sharded', { source, shards: 2, each: () => undefined })).toThrow(refused)
  expect(() => queueSource(new FakeQueue(), { prefetch: 0 })).toThrow(refused)
})

it('C3: a source of a pipeline is a source of a job, whose position is in the history of the job', async () => {
  const processes = new JobProcesses()
  const { rp } = processes.start()
  const seen: number[] = []
  const work = (stopAt: number) =>
    job('logged', {
      source: logSource(valueSource(Array.from({ length: 100 }, (_, n) => n)), { id: String }),
      each: (item) => {
        seen.push(item)
        if (item === stopAt) void run.stop()
      },
    })
  let run = await rp.run(work(40))
  const first = await run.result()
  run = await rp.run(work(-1))
  const second = await run.result()
  expect(first.status).toBe('stopped')
  expect(first.done + second.done).toBe(100)
  // The second run resumed behind the settled items.
  expect(second.skipped).toBeLessThan(40)
  expect(seen.sort((a, b) => a - b)).toEqual(Array.from({ length: 100 }, (_, n) => n))
  await processes.close()
})
