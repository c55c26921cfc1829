// reprise/events: aggregates (decide and evolve), projections of their events, and commands between them.

export type { MissingPath } from '../../core/history/fold.ts'
export { GiveUp, RetryLater, type RetryPolicy } from '../../core/retry/retry.ts'
export type { Quarantined } from '../../engine/feed/sink.ts'
export type { CatchUpOptions, SubscriptionStatus } from '../../engine/feed/subscription.ts'
export type { Readable } from '../../engine/model/definition.ts'
export type { SchemaIssue, SchemaResult, StandardSchema } from '../../engine/model/schema.ts'
export type { NewEntry } from '../../engine/writing/timeline.ts'
export type { Inline } from './aggregate.ts'
export { type AggregateDefinition, type AggregateOptions, aggregate, type EventEntry } from './aggregate.ts'
export { checkEvents, type EventsCheck } from './check.ts'
export type { AggregateHandle } from './handle.ts'
export type { Happened, PastMoment } from './history.ts'
export type { Unsealed } from './personal.ts'
export { type Personal, personal } from './personal.ts'
export type {
  Commanded,
  ProcessManagerDefinition,
  ProcessManagerOptions,
  Reaction,
  Reactions,
} from './process-manager.ts'
export {
  commandTo,
  type Outgoing,
  processManager,
  type RefusedLetter,
  type SendCommandOptions,
  sendCommand,
} from './process-manager.ts'
export type { ProcessManager } from './process-manager-handle.ts'
export type { CommonOptions, SqlProjectionOptions, TableProjectionOptions } from './projection.ts'
export {
  type PartitionedProjectionOptions,
  type ProjectionDefinition,
  type ProjectionOptions,
  partitionedProjection,
  partitionedTableProjection,
  projection,
  type SqlProjectionDefinition,
  sqlProjection,
  tableProjection,
} from './projection.ts'
export type { ProjectionHandle, ProjectionStatus, RebuildOptions } from './projection-handle.ts'
export { Refused } from './refused.ts'
export { type RewriteReport, rewrite } from './rewrite.ts'
export { checked, type WithSchema } from './schema.ts'
export type { EventAt, EventFrom, EventSource, Handlers, Occurrence } from './source.ts'
export { partitionOf } from './source.ts'
export type { SqlAt } from './sql-sink.ts'
export type { OffsetTx, ProjectedTable } from './table-sink.ts'
export type {
  AggregateModel,
  AnyEvent,
  CommandInfo,
  CommandInput,
  DecideMap,
  Decision,
  DoOptions,
  DoResult,
  EventInfo,
  EventOf,
  EvolveMap,
  Flat,
  InputArgs,
  Metadata,
  Second,
  Valid,
} from './types.ts'
