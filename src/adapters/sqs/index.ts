// reprise/sqs: queues of Amazon SQS, and of servers with its API, as sources of jobs.

export type {
  Delivery,
  ExternalQueue,
  QueueConnection,
  QueueContext,
} from '../../layers/job/queues/external-queue.ts'
export type { QueueReading, QueueSource } from '../../layers/job/queues/queue-source.ts'
export { type SqsConnecting, type SqsKeys, type SqsMessage, type SqsOptions, sqsBroker, sqsQueue } from './queue.ts'
