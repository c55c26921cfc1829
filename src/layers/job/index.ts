// reprise/job: resumable jobs over anything that can be iterated. See docs/guides/jobs.md.

export { type ByteRecord, json, type KeyedByteRecord, keyValue, text } from '../../core/decoders.ts'
export type { BreakerPolicy, BreakerSettings } from '../../core/retry/breaker.ts'
export type { CallPolicy } from '../../core/retry/call-policy.ts'
export type { RatePolicy, RateSettings } from '../../core/retry/rate.ts'
export type { ResolvedRetry } from '../../core/retry/retry.ts'
export { GiveUp, RetryLater, type RetryPolicy } from '../../core/retry/retry.ts'
export { type LogFields, type Logger, logOf } from '../../engine/base/log.ts'
export type { Lag } from '../../engine/feed/feed-stream.ts'
export type { Readable } from '../../engine/model/definition.ts'
export type { AnyConsumer, From, ItemOf } from './consumer.ts'
export {
  type ConsumerDefinition,
  type ConsumerOptions,
  type ConsumerSettings,
  consumer,
  consumerLag,
  releaseConsumer,
} from './consumer.ts'
export type { BatchContext, ItemContext } from './context.ts'
export { type JobDefinition, job, type RunOptions } from './definition.ts'
export type { Cursor, ItemFailure } from './entries.ts'
export { type ItemEntry, type ItemQueue, itemQueue, type QueuedItem } from './item-queue.ts'
export { discardLetters, readLetters, redriveLetters, stopJob } from './letters.ts'
export { jobKind } from './model.ts'
export type { JobEach, JobEachBatch, JobOptions, JobSettings, ResolvedJob } from './options.ts'
export type { JobEvent, JobProgress, JobReport } from './progress.ts'
export {
  exportProgress,
  type ImportProgressOptions,
  type ImportProgressReport,
  importProgress,
  type ProgressLine,
} from './progress-file.ts'
export type { Delivery, ExternalQueue, QueueConnection, QueueContext } from './queues/external-queue.ts'
export type { Receipt } from './queues/held-message.ts'
export { type Log, type LogBatch, type LogReader, type LogReading, logSource } from './queues/log-source.ts'
export { type QueueReading, type QueueSource, queueSource } from './queues/queue-source.ts'
export { attachReporter, makeReporter, type Reporter, type ReporterName, type ReportStream } from './report/index.ts'
export type { JobRun, RedriveOptions } from './run.ts'
export { stopOnSignals } from './signals.ts'
export type { Chunk, PlainSource, Produced, ReadContext, SourceFunction, SourceInput } from './source.ts'
export {
  type JobSource,
  type JobSourceContext,
  keyRange,
  type PageOf,
  pages,
  type Reader,
  type SourceLike,
} from './source.ts'
export { type CsvOptions, csv, type JsonLineOptions, jsonLines, type LineOptions, lines } from './sources/lines.ts'
export type { JobFoldOptions, JobStatus, Redrive, WaitingItem } from './state.ts'
export { type DeadLetter, type JobState, jobFold } from './state.ts'
