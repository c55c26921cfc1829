// reprise/kafka: Kafka topics as sources and transactional sinks of pipelines.

export type { PipelineKey } from '../../core/key-groups.ts'
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
export { type KafkaSinkOptions, kafkaSink } from './sink.ts'
export { type KafkaOptions, type KafkaStart, kafkaSource } from './source.ts'
