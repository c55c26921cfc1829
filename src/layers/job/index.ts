// reprise/job: resumable jobs over anything that can be iterated. See docs/guides/jobs.md.

export type { BreakerPolicy } from '../../core/breaker.ts'
export type { CallPolicy } from '../../core/call-policy.ts'
export type { RatePolicy } from '../../core/rate.ts'
export { GiveUp, RetryLater, type RetryPolicy } from '../../core/retry.ts'
export type { Lag } from '../../engine/subscription/feed-stream.ts'
export {
  type ConsumerDefinition,
  type ConsumerOptions,
  consumer,
  consumerLag,
  releaseConsumer,
} from './consumer.ts'
export type { BatchContext, ItemContext } from './context.ts'
export { type JobDefinition, job, type RunOptions } from './definition.ts'
export type { Failure } from './entries.ts'
export { discardLetters, readLetters, redriveLetters, stopJob } from './letters.ts'
export { jobKind } from './model.ts'
export type { JobOptions } from './options.ts'
export type { JobEvent, JobProgress, JobReport } from './progress.ts'
export {
  exportProgress,
  type ImportOptions,
  type ImportReport,
  importProgress,
  type ProgressLine,
} from './progress-file.ts'
export { attachReporter, makeReporter, type Reporter, type ReporterName, type ReportStream } from './report/index.ts'
export type { JobRun } from './run.ts'
export { stopOnSignals } from './signals.ts'
export {
  keyRange,
  type PageOf,
  pages,
  type Reader,
  type Source,
  type SourceContext,
  type SourceLike,
} from './source.ts'
export { type CsvOptions, csv, type JsonLineOptions, jsonLines, type LineOptions, lines } from './sources/lines.ts'
export { type DeadLetter, type JobState, jobFold } from './state.ts'
