// reprise/pipeline: streams of records through operators with state, exactly once from source to sink.

export { type ByteRecord, json, type KeyedByteRecord, keyValue, text } from '../../core/decoders.ts'
export type { PipelineKey } from '../../core/key-groups.ts'
export type { Nothing, Synchronous } from '../../core/synchronous.ts'
export { type LogFields, type Logger, logOf } from '../../engine/base/log.ts'
export type { Readable } from '../../engine/model/definition.ts'
export { type Aggregation, average, count, list, max, min, reduce, sum } from './aggregate.ts'
export type { Batch } from './batch.ts'
export {
  type CheckedPipeline,
  checkPipelines,
  type PipelineCheckOptions,
  type PipelineCheckReport,
} from './check/check.ts'
export { type PipelineDefaults, type PipelineDefinition, pipeline } from './definition.ts'
export type { CallContext, CallOptions } from './operators/calls.ts'
export type { WindowResult } from './operators/fixed-window.ts'
export type { LeftOf, Outer, RightOf } from './operators/joined.ts'
export {
  type ListState,
  listState,
  type MapState,
  mapState,
  type ReducingState,
  reducingState,
  type StateOptions,
  type StateSpec,
  type ValueState,
  valueState,
} from './operators/keyed-state.ts'
export {
  type Carries,
  carries,
  type ProcessBothOptions,
  type ProcessContext,
  type ProcessOptions,
  type ProcessParts,
  type SideSpecs,
  type SideValue,
  type StateHandles,
  type StateSpecs,
} from './operators/process.ts'
export type { KeyedResult } from './operators/running-aggregate.ts'
export type { JoinedTable, TableFollower } from './operators/table-join.ts'
export type { Present } from './operators/tombstones.ts'
export type { CheckpointKind } from './rules/coordinator.ts'
export type { FixedWindows, SessionWindows } from './rules/windows.ts'
export type { MadeCheckpoint } from './run/checkpoints.ts'
export type { OperatorStatus } from './run/flow.ts'
export { comparePipelineState, type PipelineCell, type PipelineCellChange, readPipelineState } from './run/inspect.ts'
export type { PipelineLetter } from './run/letters.ts'
export type { PipelineChanges, PipelineCheckpointPolicy, PipelineOptions, PipelineWorkOptions } from './run/options.ts'
export type { PipelineReport, PipelineStatus, PipelineWaitOptions, SourceStatus } from './run/report.ts'
export type { PipelineRun } from './run/run.ts'
export type { CheckpointFacts, PipelineStage, PipelineState } from './run/state.ts'
export type { CutId, Prepared, Sink, SinkContext, SinkWriter } from './sink.ts'
export { type Collected, collectSink, printSink } from './sinks/collect.ts'
export { type FilesOptions, fileSink } from './sinks/files.ts'
export { type HttpSinkOptions, httpSink } from './sinks/http.ts'
export { type RowsOptions, rowSink, type SqlSinkOptions, sqlSink } from './sinks/rows.ts'
export { type SendContext, type SendOptions, sendSink } from './sinks/send.ts'
export {
  type TableSinkOptions,
  type TableSinkTx,
  type TableTarget,
  type TimelineSinkOptions,
  type TimelineTarget,
  tableSink,
  timelineSink,
} from './sinks/store.ts'
export type { PartitionsContext, Positions, Source, SourceBatch, SourceContext, SourceReader } from './source.ts'
export { type EntriesOf, type EntriesOptions, entrySource } from './sources/entries.ts'
export {
  type CsvSourceOptions,
  csvSource,
  type FileSourceOptions,
  jsonLineSource,
  lineSource,
} from './sources/files.ts'
export { type HttpSource, type HttpSourceOptions, httpSource } from './sources/http.ts'
export { type AskPage, pageSource, type SourcePage } from './sources/pages.ts'
export { type GeneratedOptions, generatedSource, iterableSource, valueSource } from './sources/values.ts'
export type { StageView } from './stages/plan.ts'
export type {
  CountedStream,
  CountWindowOptions,
  FromOptions,
  KeyedStream,
  LatestOptions,
  OuterOptions,
  PipelineBuilder,
  ProcessedStream,
  Stream,
  WindowedBy,
  WindowedStream,
  WindowOptions,
  WindowOptionsOf,
} from './stream.ts'
export {
  type CountWindows,
  days,
  every,
  session,
  sliding,
  tumbling,
  type WindowPlacement,
  type Windows,
} from './windows.ts'
