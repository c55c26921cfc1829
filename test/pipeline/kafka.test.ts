// Pipelines on a real Kafka broker: the kits for sources and sinks, committed and uncommitted records, transactions that
// outlive their process and those that do not, and an outside audit after kill -9 (REPRISE_PIPELINE_KILLS=200 for a long run).

import { once } from 'node:events'
import { connect } from 'node:net'
import { KafkaClient } from '@kafkats/client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type KafkaStart, kafkaSink, kafkaSource } from '../../src/adapters/kafka/index.ts'
import { connectTo } from '../../src/adapters/kafka/kafkats.ts'
import type { KafkaPort } from '../../src/adapters/kafka/port.ts'
import { open } from '../../src/index.ts'
import { collectSink, json, keyValue, pipeline, type Source } from '../../src/layers/pipeline/index.ts'
import { sinkConformance, sourceConformance } from '../../src/testing/index.ts'
import { amount, Child, newFolder, removeFolder } from '../crash/support.ts'
import { randomFrom } from '../programs/crash-model.mjs'
import { until } from '../support/fixture.ts'
import { kafkaJars, type RunningPart, startKafka } from '../support/parts.ts'

const kills = amount('REPRISE_PIPELINE_KILLS', 2)
const seed = amount('REPRISE_CRASH_SEED', 7)
const jars = kafkaJars()
let broker: RunningPart
let brokers: string[]
let client: KafkaClient
let port: KafkaPort
let made = 0

async function newTopic(partitions = 1): Promise<string> {
  const name = `topic-${++made}`
  await client.createTopics([{ name, numPartitions: partitions, replicationFactor: 1 }])
  await until(async () => (await client.getMetadata([name])).topics.get(name)?.partitions.size === partitions)
  return name
}

let writes = 0

/** In a transaction of its own. */
async function put(
  topic: string,
  partition: number,
  numbers: readonly (number | string)[],
  how: 'commit' | 'abort' = 'commit',
) {
  const transaction = await port.begin(`writer-${++writes}`, 60_000)
  await port.addPartitions(transaction, topic, [partition])
  for (let sequence = 0; sequence < numbers.length; sequence += 5000) {
    const some = numbers.slice(sequence, sequence + 5000)
    const records = some.map((n) => ({ key: null, value: Buffer.from(String(n)), headers: {}, time: 1 }))
    await port.produce(transaction, topic, [{ partition, records, sequence }])
  }
  expect(await port.end(transaction, how)).toBe('ended')
}

/** The records that a reader of committed records gets. */
async function numbersIn(topic: string, partition = 0): Promise<number[]> {
  const newest = await port.offset(topic, partition, 'newest')
  const found: number[] = []
  for (let offset = await port.offset(topic, partition, 'oldest'); offset < newest; ) {
    const [fetched] = await port.fetch(topic, [{ partition, offset }], 100)
    for (const { value } of fetched!.records) found.push(Number(Buffer.from(value ?? []).toString()))
    offset = fetched!.next
  }
  return found
}

const decoded = (source: Source<never>): Source<number> => ({
  ...(source as unknown as Source<number>),
  decode: json<number>(),
})

describe.skipIf(jars === null)('on a real Kafka broker', () => {
  beforeAll(async () => {
    broker = await startKafka(jars!)
    brokers = [`127.0.0.1:${broker.port}`]
    client = new KafkaClient({ brokers, clientId: 'test', logLevel: 'silent' as never })
    await client.connect()
    port = await connectTo({ brokers })
  })
  afterAll(async () => {
    await port?.close()
    await client?.disconnect()
    await broker?.stop()
  })

  sourceConformance<number>(
    { describe, it },
    {
      name: 'kafka',
      async create() {
        const topic = await newTopic(3)
        const all = new Map<string, number[]>([
          ['0', []],
          ['1', []],
          ['2', []],
        ])
        const add = async () => {
          // The last partition is silent.
          for (const partition of [0, 1]) {
            const numbers = [all.get(String(partition))!.length, all.get(String(partition))!.length + 1]
            await put(topic, partition, [-1], 'abort')
            await put(topic, partition, numbers)
            all.get(String(partition))!.push(...numbers)
          }
        }
        await add()
        await add()
        return {
          source: () => decoded(kafkaSource({ brokers, topic, discover: 50 }) as never),
          expected: () => all,
          ends: false,
          add,
          async addPartition() {
            await createPartitions(topic, 4)
            all.set('3', [])
            await until(async () => (await port.partitions(topic)).length === 4)
            await put(topic, 3, [7])
            all.get('3')!.push(7)
          },
          destroy: async () => undefined,
        }
      },
    },
  )

  sinkConformance<number>(
    { describe, it },
    {
      name: 'kafkaSink',
      seeds: [1, 2],
      async create() {
        const topic = await newTopic()
        return {
          sink: () => kafkaSink<number>({ brokers, topic, transactionalId: `kit-${topic}` }),
          value: (n) => n,
          isExactlyOnce: true,
          visible: () => numbersIn(topic),
          destroy: async () => undefined,
        }
      },
    },
  )

  it('reads committed records only: aborts before, between and larger than a fetch', async () => {
    const topic = await newTopic()
    await put(topic, 0, [1])
    await put(topic, 0, [-1, -2], 'abort')
    await put(topic, 0, [-3], 'abort')
    await put(topic, 0, [2])
    const padding = 'x'.repeat(1000)
    const open1 = await port.begin('large', 60_000)
    await port.addPartitions(open1, topic, [0])
    for (let sequence = 0; sequence < 4000; sequence += 500) {
      const records = Array.from({ length: 500 }, () => ({
        key: null,
        value: Buffer.from(padding),
        headers: {},
        time: 1,
      }))
      await port.produce(open1, topic, [{ partition: 0, records, sequence }])
    }
    expect(await port.end(open1, 'abort')).toBe('ended')
    const [a, b] = [await port.begin('a', 60_000), await port.begin('b', 60_000)]
    for (const [transaction, n] of [
      [a, 3],
      [b, -4],
      [a, 4],
    ] as const) {
      await port.addPartitions(transaction, topic, [0])
      const records = [{ key: null, value: Buffer.from(String(n)), headers: {}, time: 1 }]
      await port.produce(transaction, topic, [{ partition: 0, records, sequence: n === 4 ? 1 : 0 }])
    }
    // An open transaction blocks all readers.
    expect(await numbersIn(topic)).toEqual([1, 2])
    expect(await port.end(b, 'abort')).toBe('ended')
    expect(await port.end(a, 'commit')).toBe('ended')
    expect(await numbersIn(topic)).toEqual([1, 2, 3, 4])
  })

  it('ends a transaction of another process by its three numbers, the same way twice, and no other way', async () => {
    const topic = await newTopic()
    const transaction = await port.begin('two-phases', 60_000)
    await port.addPartitions(transaction, topic, [0])
    await port.produce(transaction, topic, [
      { partition: 0, records: [{ key: null, value: Buffer.from('1'), headers: {}, time: 1 }], sequence: 0 },
    ])
    const other = await connectTo({ brokers })
    expect(await other.end(transaction, 'commit')).toBe('ended')
    expect(await other.end(transaction, 'commit')).toBe('ended')
    expect(await other.end(transaction, 'abort')).toBe('gone')
    expect(await numbersIn(topic)).toEqual([1])
    const next = await other.begin('two-phases', 60_000)
    expect(await port.end(transaction, 'commit')).toBe('gone')
    // A writer without the newest epoch cannot replace the current one by accident.
    await expect(port.begin('two-phases', 60_000, transaction)).rejects.toMatchObject({ code: 'TRANSACTION_EXPIRED' })
    expect((await other.begin('two-phases', 60_000, next)).epoch).toBe(next.epoch + 1)
    await other.close()
  })

  it('refuses a transaction that the broker gave up, with a choice', async () => {
    const topic = await newTopic()
    const rp = await open('memory:')
    const sink = (expired?: 'skip') =>
      kafkaSink<number>({
        brokers,
        topic,
        transactionalId: `expired-${topic}`,
        transactionTimeout: '1s',
        ...(expired && { expired }),
      })
    const context = { engine: rp, pipeline: 'pipeline/x', name: 'out' }
    const writer = await sink().open(context, null)
    await writer.write({ values: [1], times: null, keys: null })
    const listed = (await writer.cut({ checkpoint: 1, epoch: 1 })()) as {
      producerId: string
      epoch: number
      slot: number
    }[]
    // As the broker does after its timeout: the id is initialised again, and the open transaction is aborted.
    await port.begin(`expired-${topic}-${listed[0]!.slot}`, 60_000)
    await expect(sink().open(context, listed)).rejects.toMatchObject({
      code: 'TRANSACTION_EXPIRED',
      message: expect.stringContaining("expired: 'skip'"),
    })
    const skipping = await sink('skip').open(context, listed)
    await skipping.write({ values: [2], times: null, keys: null })
    await skipping.commit(await skipping.cut({ checkpoint: 2, epoch: 2 })())
    await skipping.close()
    await writer.close()
    expect(await numbersIn(topic)).toEqual([2])
    await rp.close()
  })

  it("refuses positions that the broker deleted, and resumes at the user's choice", async () => {
    const topic = await newTopic()
    await put(topic, 0, [1, 2, 3])
    const rp = await open('memory:')
    const out = collectSink<number>()
    const define = (gone?: 'oldest' | 'newest') =>
      pipeline('gone', (p) => {
        p.from('in', kafkaSource({ brokers, topic, ...(gone && { gone }) }), { decode: json<number>() }).to('out', out)
      })
    const run = await rp.run(define(), { checkpoint: { every: 1 } }).started()
    await until(() => out.values.length === 3, run.result())
    await run.stop()
    // The topic was made anew, and has fewer records.
    await client.admin().deleteTopics([topic])
    await until(async () => !(await client.getMetadata()).topics.has(topic))
    await client.createTopics([{ name: topic, numPartitions: 1, replicationFactor: 1 }])
    await until(async () => (await port.partitions(topic).catch(() => [])).length === 1)
    await put(topic, 0, [9])
    await expect(rp.run(define()).result()).rejects.toMatchObject({
      code: 'POSITION_GONE',
      hint: expect.stringContaining("{ gone: 'oldest' }"),
    })
    const again = await rp.run(define('oldest'), { checkpoint: { every: 1 } }).started()
    await until(() => out.values.length === 4, again.result())
    await again.stop()
    expect(out.values).toEqual([1, 2, 3, 9])
    await rp.close()
  })

  it('begins at given offsets, or where a consumer group is, and refuses a start that it does not know', async () => {
    const topic = await newTopic(2)
    await put(topic, 0, [1, 2, 3])
    await put(topic, 1, [4, 5])
    await port.commitOffsets('legacy', topic, new Map([[0, 2]]))
    const rp = await open('memory:')
    const read = async (id: string, start: KafkaStart, count: number) => {
      const out = collectSink<number>()
      const drawn = pipeline('starts', (p) => {
        p.from('in', kafkaSource({ brokers, topic, start }), { decode: json<number>() }).to('out', out)
      })
      const run = await rp.run(drawn, { id, checkpoint: { every: 1 } }).started()
      await until(() => out.values.length >= count, run.result())
      await run.stop()
      return [...out.values].sort()
    }
    expect(await read('offsets', { offsets: { 0: 1, 1: 1 } }, 3)).toEqual([2, 3, 5])
    expect(await read('some', { offsets: { 1: 1 } }, 4)).toEqual([1, 2, 3, 5])
    expect(await read('group', { group: 'legacy' }, 3)).toEqual([3, 4, 5])
    await expect(read('none', { offsets: { 7: 1 } }, 1)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    await rp.close()
  })

  it('commits the offsets of its checkpoints to a group, and never reads them', async () => {
    const topic = await newTopic(2)
    await put(topic, 0, [1, 2, 3])
    await put(topic, 1, [4])
    const rp = await open('memory:')
    const out = collectSink<number>()
    const watched = pipeline('watched', (p) => {
      p.from('in', kafkaSource({ brokers, topic, group: 'lag' }), { decode: json<number>() }).to('out', out)
    })
    const offsets = async () => {
      // The first group of a broker waits for its topic.
      const coordinator = await client.cluster.getCoordinator('GROUP', 'lag').catch(() => null)
      if (!coordinator) return new Map<number, number>()
      const asked = [{ name: topic, partitions: [{ partitionIndex: 0 }, { partitionIndex: 1 }] }]
      const { topics } = await coordinator.offsetFetch({ groupId: 'lag', topics: asked, requireStable: true })
      const found = topics.flatMap(({ partitions }) => partitions)
      return new Map(found.map(({ partitionIndex, committedOffset }) => [partitionIndex, Number(committedOffset)]))
    }
    const run = await rp.run(watched, { checkpoint: { every: 1 } }).started()
    const areTold = async (first: number, second: number) => {
      const told = await offsets()
      // Behind the last record, or behind the marker of its transaction too.
      return (told.get(0) ?? 0) >= first && (told.get(1) ?? 0) >= second
    }
    await until(() => areTold(3, 1), run.result())
    await run.stop()
    // Another program resets the offsets: the pipeline keeps the position of its checkpoint.
    const first = new Map([0, 1].map((partition) => [partition, 0]))
    await port.commitOffsets('lag', topic, first)
    await put(topic, 1, [5])
    const again = await rp.run(watched, { checkpoint: { every: 1 } }).started()
    await until(() => areTold(3, 3), again.result())
    await again.stop()
    expect([...out.values].sort()).toEqual([1, 2, 3, 4, 5])
    await rp.close()
  })

  it('sets poison records aside, and an idle partition holds no window back', async () => {
    const topic = await newTopic(2)
    await put(topic, 0, ['no json', '1', '2'])
    const to = await newTopic()
    const rp = await open('memory:')
    const copied = pipeline('copied', (p) => {
      p.from('in', kafkaSource({ brokers, topic }), { decode: json<number>(), time: (n) => n * 10_000, idle: 20 }).to(
        'out',
        kafkaSink<number>({ brokers, topic: to }),
      )
    })
    const run = await rp.run(copied, { checkpoint: { every: 1 } }).started()
    await until(async () => (await numbersIn(to)).length === 2, run.result())
    await until(() => (run.status().sources[0]!.watermark ?? 0) >= 20_000, run.result())
    expect((await run.stop()).deadLetters).toBe(1)
    expect(await numbersIn(to)).toEqual([1, 2])
    await rp.close()
  })

  it('reads tombstones with their keys, and writes a null of a keyed stream as one', async () => {
    const [from, to] = [await newTopic(), await newTopic()]
    const transaction = await port.begin(`writer-${++writes}`, 60_000)
    await port.addPartitions(transaction, from, [0])
    const given: [string, string | null][] = [
      ['a', '1'],
      ['b', '2'],
      ['a', null],
    ]
    const bytes = (text: string | null) => (text === null ? null : Buffer.from(text))
    const records = given.map(([key, value]) => ({ key: bytes(key), value: bytes(value), headers: {}, time: 1 }))
    await port.produce(transaction, from, [{ partition: 0, records, sequence: 0 }])
    expect(await port.end(transaction, 'commit')).toBe('ended')
    const rp = await open('memory:')
    const copied = pipeline('copied', (p) => {
      p.from('in', kafkaSource({ brokers, topic: from }), { decode: keyValue(json<number>()) })
        .keyBy(
          ({ key }) => key,
          ({ value }) => value,
        )
        .to('out', kafkaSink<number | null>({ brokers, topic: to }))
    })
    const run = await rp.run(copied, { checkpoint: { every: 1 } }).started()
    await until(async () => (await numbersIn(to)).length === 3, run.result())
    expect((await run.stop()).deadLetters).toBe(0)
    const [fetched] = await port.fetch(to, [{ partition: 0, offset: 0 }], 100)
    const text = (each: Uint8Array | null) => each && Buffer.from(each).toString()
    expect(fetched!.records.map(({ key, value }) => [text(key), text(value)])).toEqual(given)
    await rp.close()
  })

  it('Kafka to count to Kafka, killed with SIGKILL: nothing is lost, nothing is doubled', async () => {
    const [from, to] = [await newTopic(2), await newTopic(2)]
    const total = 1000 * (1 + kills)
    for (const partition of [0, 1]) {
      const half = Array.from({ length: total / 2 }, (_, i) => 2 * i + partition)
      await put(from, partition, half)
    }
    const folder = newFolder()
    try {
      const plan = { url: `sqlite:${folder}/counted.db`, brokers, from, to, total }
      const random = randomFrom(seed)
      for (let kill = 0; kill < kills; kill++) {
        const child = new Child('kafka-killed', plan)
        // Some die while they finish the transactions of the one before, some before a checkpoint is made.
        const word = ['MADE', 'READY', 'MADE', null][kill % 4]
        if (word) await child.until(() => child.lines.includes(word))
        await new Promise((resolve) => setTimeout(resolve, random.below(200)))
        await child.kill()
        expect(child.errors).toBe('')
      }
      const last = new Child('kafka-killed', plan)
      await last.ended
      expect(last.errors).toBe('')
      expect(last.lines.at(-1)).toBe('COMPLETED')
      await expectCounts(to, total)
    } finally {
      removeFolder(folder)
    }
  }, 3_600_000)

  it('a process that was replaced begins no transaction, and that of the other one stays open', async () => {
    const to = await newTopic()
    const before = await port.begin('replaced', 60_000)
    const known = await port.begin('replaced', 60_000, before)
    const fresh = await port.begin('replaced', 60_000, await port.begin('replaced', 60_000))
    await port.addPartitions(fresh, to, [0])
    const records = [{ key: null, value: Buffer.from('7'), headers: {}, time: 1 }]
    for (const stale of [before, known]) {
      await expect(port.begin('replaced', 60_000, stale)).rejects.toMatchObject({ code: 'TRANSACTION_EXPIRED' })
    }
    await port.produce(fresh, to, [{ partition: 0, records, sequence: 0 }])
    expect(await port.end(fresh, 'commit')).toBe('ended')
    expect(await numbersIn(to)).toEqual([7])
    expect((await port.begin('replaced', 60_000, fresh)).epoch).toBe(fresh.epoch + 1)
  })

  it('a process that was stopped and replaced is FENCED, ends, and nothing is doubled', async () => {
    const [from, to] = [await newTopic(2), await newTopic(2)]
    const total = 4000
    for (const partition of [0, 1]) {
      const half = Array.from({ length: total / 2 }, (_, i) => 2 * i + partition)
      await put(from, partition, half)
    }
    const folder = newFolder()
    try {
      const plan = { url: `sqlite:${folder}/counted.db`, brokers, from, to, total, every: '200ms' }
      const paused = new Child('kafka-killed', plan)
      await paused.until(() => paused.lines.includes('MADE'))
      paused.signal('SIGSTOP')
      const other = new Child('kafka-killed', plan)
      // A process that was stopped while it writes to the file keeps the others out: it is stopped a moment later then.
      const nudge = setInterval(() => {
        paused.signal('SIGCONT')
        setTimeout(() => paused.signal('SIGSTOP'), 20)
      }, 15_000)
      await other.until(() => other.lines.includes('MADE'))
      clearInterval(nudge)
      paused.signal('SIGCONT')
      await paused.ended
      expect(paused.lines.find((line) => line.startsWith('FAILED'))).toContain('[FENCED]')
      expect([paused.process.exitCode, paused.errors]).toEqual([1, ''])
      await other.ended
      expect([other.lines.at(-1), other.errors]).toEqual(['COMPLETED', ''])
      await expectCounts(to, total)
    } finally {
      removeFolder(folder)
    }
  }, 600_000)

  it('a topic that is not there is named, with advice about topics', async () => {
    const rp = await open('memory:')
    const reading = pipeline('reading', (p) => {
      p.from('in', kafkaSource({ brokers, topic: 'nobody-made-it' })).to('out', collectSink())
    })
    await expect(rp.run(reading).result()).rejects.toMatchObject({
      code: 'NOT_FOUND',
      message: expect.stringContaining('there is no topic nobody-made-it'),
      hint: expect.stringContaining('Create the topic'),
    })
    await rp.close()
  })
})

/** Each record adds one to the count of its key: every count from 1 up appears once. */
async function expectCounts(topic: string, total: number): Promise<void> {
  const counts = new Map<number, number[]>()
  for (const partition of [0, 1]) {
    for (const both of await numbersIn(topic, partition)) {
      const [key, count] = [Math.floor(both / 10_000_000), both % 10_000_000]
      const of = counts.get(key) ?? []
      of.push(count)
      counts.set(key, of)
    }
  }
  expect(counts.size).toBe(7)
  for (const [key, found] of counts) {
    const wanted = Array.from({ length: total }, (_, n) => n).filter((n) => n % 7 === key).length
    expect(found).toEqual(Array.from({ length: wanted }, (_, i) => i + 1))
  }
}

/** The client cannot: one request by hand (CreatePartitions, version 0). */
async function createPartitions(topic: string, count: number): Promise<void> {
  const text = (value: string) => {
    const bytes = Buffer.alloc(2 + value.length)
    bytes.writeInt16BE(value.length)
    bytes.write(value, 2)
    return bytes
  }
  const numbers = (...all: readonly number[]) => {
    const bytes = Buffer.alloc(4 * all.length)
    all.forEach((n, i) => void bytes.writeInt32BE(n, 4 * i))
    return bytes
  }
  const header = Buffer.concat([Buffer.from([0, 37, 0, 0]), numbers(1), text('test')])
  // One topic, the number of partitions, brokers by chance, a time limit, not only a trial.
  const body = Buffer.concat([numbers(1), text(topic), numbers(count, -1), numbers(10_000), Buffer.from([0])])
  const socket = connect(broker.port, '127.0.0.1')
  socket.write(Buffer.concat([numbers(header.length + body.length), header, body]))
  await once(socket, 'data')
  socket.destroy()
}
