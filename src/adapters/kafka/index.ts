// reprise/kafka: Kafka topics as sources and transactional sinks of pipelines, and as sources of jobs.

export type { PipelineKey } from '../../core/key-groups.ts'
export type { Receipt } from '../../layers/job/queues/held-message.ts'
export type { LogReading } from '../../layers/job/queues/log-source.ts'
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
export type { KafkaConnecting, KafkaOut, KafkaRecord } from './port.ts'
export { type KafkaQueueOptions, kafkaQueue } from './queue.ts'
export { type KafkaSinkOptions, kafkaSink } from './sink.ts'
export { type KafkaOptions, type KafkaStart, kafkaSource } from './source.ts'
