// A real Kafka broker that is killed with SIGKILL under a pipeline that counts from Kafka to Kafka, and restarted with its
// data. Each record adds one to the count of its key, so readers of committed records must see every count from 1 up once.

import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { kafkaSink, kafkaSource } from '../../src/adapters/kafka/index.ts'
import { connectTo } from '../../src/adapters/kafka/kafkats.ts'
import type { KafkaPort } from '../../src/adapters/kafka/port.ts'
import type { Duration } from '../../src/core/duration.ts'
import { open } from '../../src/index.ts'
import { count, json, type KeyedResult, pipeline, type Sink, type SinkWriter } from '../../src/layers/pipeline/index.ts'
import { until } from '../support/fixture.ts'
import { createTopic } from '../support/kafka-topics.ts'
import { kafkaJars, type RunningPart, startKafka } from '../support/parts.ts'

const jars = kafkaJars()
const keys = 3
let broker: RunningPart
let brokers: string[]
let port: KafkaPort
let writes = 0

/** The numbers from `first` on, in a transaction of their own. */
async function put(topic: string, first: number, amount: number): Promise<void> {
  const transaction = await port.begin(`writer-${++writes}`, 60_000)
  await port.addPartitions(transaction, topic, [0])
  const records = Array.from({ length: amount }, (_, i) => ({
    ...{ key: null, value: Buffer.from(String(first + i)), headers: {}, time: 1 },
  }))
  await port.produce(transaction, topic, [{ partition: 0, records, sequence: 0 }])
  expect(await port.end(transaction, 'commit')).toBe('ended')
}

/** The records that a reader of committed records gets: key and count. */
async function countsIn(topic: string): Promise<string[]> {
  const newest = await port.offset(topic, 0, 'newest')
  const found: string[] = []
  for (let offset = 0; offset < newest; ) {
    const [fetched] = await port.fetch(topic, [{ partition: 0, offset }], 100)
    for (const { value } of fetched!.records) found.push(Buffer.from(value!).toString())
    offset = fetched!.next
  }
  return found
}

/** In their order, for the numbers from 0 up. */
const wanted = (total: number) => Array.from({ length: total }, (_, n) => `${n % keys}:${Math.floor(n / keys) + 1}`)

/** Notifies a test before its pipeline does something. */
function watched<T>(sink: Sink<T>, before: { write?: () => Promise<void>; commit?: () => Promise<void> }): Sink<T> {
  return {
    async open(context, listed) {
      const writer = await sink.open(context, listed)
      const seen: SinkWriter = {
        get pending() {
          return writer.pending
        },
        async write(batch) {
          // Into the transaction first: it is open when the test is notified.
          await writer.write(batch)
          await before.write?.()
        },
        cut: (id) => writer.cut(id),
        async commit(prepared) {
          if (prepared !== null) await before.commit?.()
          await writer.commit(prepared)
        },
        rejoin: () => writer.rejoin(),
        close: () => writer.close(),
      }
      return seen
    },
  }
}

describe.skipIf(jars === null)('a Kafka broker that is killed and comes back', () => {
  beforeAll(async () => {
    broker = await startKafka(jars!)
    brokers = [`127.0.0.1:${broker.port}`]
    port = await connectTo({ brokers, awayFor: '10m' })
  })
  afterAll(async () => {
    await port?.close()
    await broker?.stop()
  })

  const counted = (
    name: string,
    before: { write?: () => Promise<void>; commit?: () => Promise<void> },
    awayFor: Duration,
  ) =>
    pipeline(name, (p) => {
      p.from('numbers', kafkaSource({ brokers, topic: `${name}-in`, awayFor }), { decode: json<number>() })
        .keyBy((n) => n % keys)
        .aggregate('per-key', count())
        .to(
          'counts',
          watched(
            kafkaSink<KeyedResult<number>>({
              ...{ brokers, topic: `${name}-out`, awayFor },
              message: ({ key, value }) => ({ value: `${key}:${value}` }),
            }),
            before,
          ),
        )
    })

  it('is waited for: the run continues with its open transaction', async () => {
    await createTopic(brokers, 'waited-in')
    await createTopic(brokers, 'waited-out')
    const rp = await open('memory:')
    let isArmed = false
    let killed: Promise<void> | null = null
    const before = {
      async write() {
        if (!isArmed) return
        killed ??= broker.kill()
        await killed
      },
    }
    // A busy machine may take long to start a broker.
    const run = await rp.run(counted('waited', before, '10m'), { checkpoint: { every: '20ms' } }).started()
    await put('waited-in', 0, 100)
    await until(async () => (await countsIn('waited-out')).length === 100, run.result())
    isArmed = true
    // A writer may still wait for the end of its transaction when the broker dies.
    const putting = put('waited-in', 100, 100)
    await until(() => killed !== null, run.result())
    await killed
    broker = await startKafka(jars!, broker)
    await putting
    await put('waited-in', 200, 100)
    await until(async () => (await countsIn('waited-out')).length >= 300, run.result())
    await run.stop()
    expect(await countsIn('waited-out')).toEqual(wanted(300))
    await rp.close()
  })

  it('ends a run that it leaves alone for longer than awayFor; the next one commits the prepared transactions', async () => {
    await createTopic(brokers, 'left-in')
    await createTopic(brokers, 'left-out')
    await put('left-in', 0, 100)
    const rp = await open('memory:')
    let killed: Promise<void> | null = null
    // The checkpoint is published, its transaction prepared and not committed.
    const before = {
      async commit() {
        killed ??= broker.kill()
        await killed
      },
    }
    const end = () =>
      rp
        .run(counted('left', before, '1s'), { checkpoint: { every: '20ms' } })
        .result()
        .catch((error) => error)
    // A broker that is slow enough counts as away too.
    do expect(await end()).toMatchObject({ code: 'BROKER_AWAY', remedy: 'retry' })
    while (killed === null)
    await killed
    broker = await startKafka(jars!, broker)
    const again = await rp.run(counted('left', {}, '10m'), { checkpoint: { every: '20ms' } }).started()
    await put('left-in', 100, 100)
    await until(async () => (await countsIn('left-out')).length >= 200, again.result())
    await again.stop()
    expect(await countsIn('left-out')).toEqual(wanted(200))
    await rp.close()
  })
})
