// reprise/amqp: queues of AMQP 0.9.1 (RabbitMQ) as sources of jobs.

export type {
  Delivery,
  ExternalQueue,
  QueueConnection,
  QueueContext,
} from '../../layers/job/queues/external-queue.ts'
export type { Receipt } from '../../layers/job/queues/held-message.ts'
export type { QueueReading, QueueSource } from '../../layers/job/queues/queue-source.ts'
export type { Chunk, JobSource, PlainSource, ReadContext, Reader } from '../../layers/job/source.ts'
export { type AmqpConnecting, type AmqpMessage, type AmqpOptions, amqpBroker, amqpQueue } from './queue.ts'
