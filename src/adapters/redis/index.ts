// reprise/redis: streams of Redis as sources of jobs.

export type {
  Delivery,
  ExternalQueue,
  QueueConnection,
  QueueContext,
} from '../../layers/job/queues/external-queue.ts'
export type { Receipt } from '../../layers/job/queues/held-message.ts'
export type { QueueReading, QueueSource } from '../../layers/job/queues/queue-source.ts'
export type { Chunk, JobSource, PlainSource, ReadContext, Reader } from '../../layers/job/source.ts'
export { type RedisConnecting, type RedisMessage, type RedisOptions, redisBroker, redisQueue } from './queue.ts'
