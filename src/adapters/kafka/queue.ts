// A Kafka topic as the source of a job. The offsets are stored in the job's own history, in the commit that makes its items
// durable; a consumer group only reports them to tools that monitor lag.

import { checkOptions } from '../../core/options.ts'
import { type LogReading, logSource } from '../../layers/job/queues/log-source.ts'
import type { PlainSource } from '../../layers/job/source.ts'
import type { KafkaRecord } from './port.ts'
import { type KafkaOptions, kafkaOptionNames, kafkaSource } from './source.ts'

export type KafkaQueueOptions<T = KafkaRecord> = KafkaOptions & Omit<LogReading<KafkaRecord, T>, 'id'>

const known = new Set([...kafkaOptionNames, 'decode', 'untilEmptyFor'])

/** @example job('orders', { source: kafkaQueue({ brokers, topic: 'orders', decode: json<Order>() }), each: ship }) */
export function kafkaQueue<T = KafkaRecord>(options: KafkaQueueOptions<T>): PlainSource<T> {
  checkOptions('kafkaQueue', options, known)
  const { decode, untilEmptyFor, ...reading } = options
  return logSource<KafkaRecord, T>(kafkaSource(reading), {
    ...(decode && { decode }),
    ...(untilEmptyFor !== undefined && { untilEmptyFor }),
    id: ({ topic, partition, offset }) => `${topic}/${partition}/${offset}`,
  })
}
