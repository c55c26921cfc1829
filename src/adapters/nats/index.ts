// reprise/nats: NATS JetStream streams as sources and sinks of pipelines, and their consumers as sources of jobs.

export type { PipelineKey } from '../../core/key-groups.ts'
export type {
  Delivery,
  ExternalQueue,
  QueueConnection,
  QueueContext,
} from '../../layers/job/queues/external-queue.ts'
export type { Receipt } from '../../layers/job/queues/held-message.ts'
export type { QueueReading, QueueSource } from '../../layers/job/queues/queue-source.ts'
export type { Chunk, JobSource, PlainSource, ReadContext, Reader } from '../../layers/job/source.ts'
export type { Batch } from '../../layers/pipeline/batch.ts'
export type { CutId, Prepared, Sink, SinkContext, SinkWriter } from '../../layers/pipeline/sink.ts'
export type {
  PartitionsContext,
  Positions,
  Source,
  SourceBatch,
  SourceContext,
  SourceReader,
} from '../../layers/pipeline/source.ts'
export type { NatsConnecting, NatsPatience, NatsServers } from './connecting.ts'
export { type NatsConsuming, type NatsQueueOptions, natsBroker, natsQueue } from './queue.ts'
export { type NatsOut, type NatsSinkOptions, type NatsWriting, natsSink } from './sink.ts'
export { type NatsOptions, type NatsReading, type NatsRecord, natsSource } from './source.ts'
