// reprise/sqs: queues of Amazon SQS, and of servers with its API, as sources of jobs.

export type {
  Delivery,
  ExternalQueue,
  QueueConnection,
  QueueContext,
} from '../../layers/job/queues/external-queue.ts'
export type { Receipt } from '../../layers/job/queues/held-message.ts'
export type { QueueReading, QueueSource } from '../../layers/job/queues/queue-source.ts'
export type { Chunk, JobSource, PlainSource, ReadContext, Reader } from '../../layers/job/source.ts'
export { type SqsConnecting, type SqsKeys, type SqsMessage, type SqsOptions, sqsBroker, sqsQueue } from './queue.ts'
