// Pipelines on a real NATS server: the kits for sources and sinks, expired messages, and other writers.

import { type JetStreamManager, jetstream, jetstreamManager, RetentionPolicy, StorageType } from '@nats-io/jetstream'
import { connect, type NatsConnection } from '@nats-io/transport-node'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { natsSink, natsSource } from '../../src/adapters/nats/index.ts'
import type { Duration } from '../../src/core/duration.ts'
import { open } from '../../src/index.ts'
import { collectSink, json, pipeline, type Source, valueSource } from '../../src/layers/pipeline/index.ts'
import { sinkConformance, sourceConformance } from '../../src/testing/index.ts'
import { natsBinary, type RunningPart, startNats } from '../support/parts.ts'
import { until } from '../support/until.ts'

const binary = natsBinary()
let server: RunningPart
let connection: NatsConnection
let manager: JetStreamManager
let made = 0

async function newStream(options: { readonly subjects?: string[]; readonly config?: object } = {}) {
  const name = `S${++made}`
  const { subjects = [`${name}.>`], config = {} } = options
  await manager.streams.add({ name, subjects, allow_atomic: true, storage: StorageType.Memory, ...config })
  const js = jetstream(connection)
  const add = async (n: number, subject = `${name}.a`) => void (await js.publish(subject, JSON.stringify(n)))
  return { name, add }
}

async function numbersIn(stream: string): Promise<number[]> {
  const { state } = await manager.streams.info(stream)
  const found: number[] = []
  for (let seq = state.first_seq; seq <= state.last_seq && state.messages > 0; seq++) {
    const message = await manager.streams.getMessage(stream, { seq }).catch(() => null)
    if (message) found.push(message.json<number>())
  }
  return found
}

describe.skipIf(binary === null)('on a real NATS server', () => {
  beforeAll(async () => {
    server = await startNats(binary!)
    connection = await connect({ servers: `127.0.0.1:${server.port}` })
    manager = await jetstreamManager(connection)
  })
  afterAll(async () => {
    await connection?.close()
    await server?.stop()
  })

  const decoded = (source: Source<never>): Source<number> => ({
    ...(source as unknown as Source<number>),
    decode: json<number>(),
  })

  sourceConformance<number>(
    { describe, it },
    {
      name: 'nats',
      async create() {
        const { name, add } = await newStream()
        const all: number[] = []
        const more = async () => {
          await add(all.length)
          all.push(all.length)
        }
        for (let n = 0; n < 7; n++) await more()
        return {
          source: () => decoded(natsSource({ connection, stream: name }) as never),
          expected: () => new Map([['', all]]),
          ends: false,
          add: more,
          forget: async () => void (await manager.streams.purge(name, { keep: 1 })),
          destroy: async () => void (await manager.streams.delete(name)),
        }
      },
    },
  )

  sourceConformance<number>(
    { describe, it },
    {
      name: 'nats, by subjects',
      async create() {
        const { name, add } = await newStream()
        const names = [0, 1].map((p) => `${name}.p${p}.*`)
        const all = new Map(names.map((each) => [each, [] as number[]]))
        for (let n = 0; n < 8; n++) {
          await add(n, `${name}.p${n % 2}.x`)
          all.get(names[n % 2]!)!.push(n)
        }
        return {
          source: () =>
            decoded(natsSource({ servers: `127.0.0.1:${server.port}`, stream: name, partitions: names }) as never),
          expected: () => all,
          ends: false,
          destroy: async () => void (await manager.streams.delete(name)),
        }
      },
    },
  )

  for (const isShared of [false, true]) {
    sinkConformance<number>(
      { describe, it },
      {
        name: isShared ? 'natsSink, with others who write' : 'natsSink',
        seeds: isShared ? [4] : [1, 2],
        async create() {
          const { name, add } = await newStream()
          return {
            sink: () => natsSink<number>({ connection, stream: name, message: `${name}.out` }),
            value: (n) => n,
            isExactlyOnce: true,
            async visible() {
              const found = (await numbersIn(name)).filter((n) => n >= 0)
              if (isShared) await add(-1)
              return found
            },
            destroy: async () => void (await manager.streams.delete(name)),
          }
        },
      },
    )
  }

  sinkConformance<number>(
    { describe, it },
    {
      name: 'natsSink, by message ids',
      seeds: [1],
      async create() {
        const { name } = await newStream({ config: { allow_atomic: false } })
        return {
          sink: () => natsSink<number>({ connection, stream: name, message: `${name}.out`, atomic: false }),
          value: (n) => n,
          isExactlyOnce: true,
          visible: () => numbersIn(name),
          destroy: async () => void (await manager.streams.delete(name)),
        }
      },
    },
  )

  it('copies a stream through a pipeline, in several batches per checkpoint, and bad messages are dead letters', async () => {
    const [from, to] = [await newStream(), await newStream()]
    const js = jetstream(connection)
    await js.publish(`${from.name}.a`, 'no json')
    await Promise.all(Array.from({ length: 2500 }, (_, n) => js.publish(`${from.name}.a`, String(n))))
    const rp = await open('memory:')
    const copied = pipeline('copied', (p) => {
      p.from('in', natsSource({ connection, stream: from.name }), { decode: json<number>() }).to(
        'out',
        natsSink<number>({
          connection,
          stream: to.name,
          message: (n) => ({ subject: `${to.name}.${n % 3}`, value: String(n) }),
        }),
      )
    })
    const run = await rp.run(copied, { checkpoint: { every: 2000 } }).started()
    while (run.status().records < 2501) await new Promise((resolve) => setTimeout(resolve, 10))
    const { deadLetters } = await run.stop()
    expect(deadLetters).toBe(1)
    await rp.close()
    const { state } = await manager.streams.info(to.name)
    expect(state.messages).toBe(2500)
    expect(new Set(await numbersIn(to.name)).size).toBe(2500)
  })

  it('continues after an outage of the server', async () => {
    let own = await startNats(binary!)
    const servers = `127.0.0.1:${own.port}`
    const publish = async (numbers: readonly number[], isFirst = false) => {
      const other = await connect({ servers })
      if (isFirst)
        await (await jetstreamManager(other)).streams.add({ name: 'AWAY', subjects: ['away'], allow_atomic: true })
      for (const n of numbers) await jetstream(other).publish('away', String(n))
      await other.close()
    }
    await publish([1, 2], true)
    const rp = await open('memory:')
    const out = collectSink<number>()
    const reading = pipeline('reading', (p) => {
      p.from('in', natsSource({ servers, stream: 'AWAY' }), { decode: json<number>() }).to('out', out)
    })
    const run = await rp.run(reading, { checkpoint: { every: 1 } }).started()
    while (out.values.length < 2) await new Promise((resolve) => setTimeout(resolve, 5))
    await own.kill()
    own = await startNats(binary!, own)
    await publish([3, 4])
    while (out.values.length < 4) await new Promise((resolve) => setTimeout(resolve, 5))
    await run.stop()
    expect(out.values).toEqual([1, 2, 3, 4])
    await rp.close()
    await own.stop()
  })

  it('ends with a code when a server is away for longer than awayFor, at the start and later, and the next run resumes', async () => {
    let own = await startNats(binary!)
    const servers = `127.0.0.1:${own.port}`
    const other = await connect({ servers })
    await (await jetstreamManager(other)).streams.add({ name: 'GONE', subjects: ['in', 'out'], allow_atomic: true })
    await jetstream(other).publish('in', '1')
    await other.close()
    const rp = await open('memory:')
    const out = collectSink<number>()
    const copying = (awayFor: Duration) =>
      pipeline('copying', (p) => {
        const numbers = p.from('in', natsSource({ servers, stream: 'GONE', filter: 'in', awayFor }), {
          decode: json<number>(),
        })
        numbers.to('seen', out)
        numbers.to('out', natsSink({ servers, stream: 'GONE', message: 'out', awayFor }))
      })
    const run = await rp.run(copying('500ms'), { checkpoint: { every: 1 } }).started()
    await until(() => out.values.length === 1, run.result())
    await own.kill()
    await expect(run.result()).rejects.toMatchObject({ code: 'BROKER_AWAY', data: { awayMs: 500 } })
    await expect(rp.run(copying('500ms')).result()).rejects.toMatchObject({ code: 'BROKER_AWAY' })
    own = await startNats(binary!, own)
    const again = await rp.run(copying('1m'), { checkpoint: { every: 1 } }).started()
    const more = await connect({ servers })
    await jetstream(more).publish('in', '2')
    await until(() => out.values.length === 2, again.result())
    await again.stop()
    expect(out.values).toEqual([1, 2])
    const { state } = await (await jetstreamManager(more)).streams.info('GONE', { subjects_filter: '>' })
    expect(state.subjects).toEqual({ in: 2, out: 2 })
    await more.close()
    await rp.close()
    await own.stop()
  }, 60_000)

  it('reads on from the oldest or the newest message on request', async () => {
    const rp = await open('memory:')
    for (const [gone, expected] of [
      ['oldest', [8, 9, 10]],
      ['newest', [10]],
    ] as const) {
      const { name, add } = await newStream()
      for (let n = 0; n < 4; n++) await add(n)
      const out = collectSink<number>()
      const define = (choice?: 'oldest' | 'newest') =>
        pipeline(`gone-${gone}`, (p) => {
          p.from('in', natsSource({ connection, stream: name, ...(choice && { gone: choice }) }), {
            decode: json<number>(),
          }).to('out', out)
        })
      const first = await rp.run(define(), { checkpoint: { every: 1 } }).started()
      while (out.values.length < 4) await new Promise((resolve) => setTimeout(resolve, 5))
      await first.stop()
      for (let n = 4; n < 10; n++) await add(n)
      await manager.streams.purge(name, { seq: 9 })
      await expect(rp.run(define()).result()).rejects.toMatchObject({
        code: 'POSITION_GONE',
        hint: expect.stringContaining("gone: 'oldest'"),
      })
      const again = await rp.run(define(gone), { checkpoint: { every: 1 } }).started()
      await add(10)
      while (!out.values.includes(10)) await new Promise((resolve) => setTimeout(resolve, 5))
      await again.stop()
      expect(out.values.slice(4)).toEqual(expected)
    }
    await rp.close()
  })

  it('refuses streams that do not list their messages, and results that they have deleted', async () => {
    const plain = await newStream({ config: { allow_atomic: false } })
    const queue = await newStream({ config: { retention: RetentionPolicy.Workqueue } })
    const rp = await open('memory:')
    const into = (stream: string, choice?: 'publish' | 'skip') =>
      pipeline('into', (p) => {
        const sink = natsSink<number>({
          connection,
          stream,
          message: `${stream}.out`,
          ...(choice && { unknown: choice }),
        })
        p.from('in', valueSource([1, 2])).to('out', sink)
      })
    for (const { name } of [plain, queue]) {
      await expect(rp.run(into(name), { id: name }).result()).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    }
    const { name, add } = await newStream()
    await add(0)
    const sink = (choice?: 'publish' | 'skip') =>
      natsSink<number>({ connection, stream: name, message: `${name}.out`, ...(choice && { unknown: choice }) })
    const context = { engine: rp, pipeline: 'pipeline/x', name: 'out' }
    const writer = await sink().open(context, null)
    await writer.write({ values: [1], times: null, keys: null })
    const listed = await writer.cut({ checkpoint: 1, epoch: 1 })()
    await add(5)
    await manager.streams.purge(name, { seq: 3 })
    await expect(sink().open(context, listed)).rejects.toMatchObject({ code: 'POSITION_GONE' })
    await (await sink('skip').open(context, listed)).close()
    expect(await numbersIn(name)).toEqual([])
    await (await sink('publish').open(context, listed)).close()
    expect(await numbersIn(name)).toEqual([1])
    await rp.close()
  })
})
