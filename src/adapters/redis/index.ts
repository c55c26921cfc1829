// reprise/redis: streams of Redis as sources of jobs.

export type {
  Delivery,
  ExternalQueue,
  QueueConnection,
  QueueContext,
} from '../../layers/job/queues/external-queue.ts'
export type { QueueReading, QueueSource } from '../../layers/job/queues/queue-source.ts'
export { type RedisConnecting, type RedisMessage, type RedisOptions, redisBroker, redisQueue } from './queue.ts'
