// reprise/events: aggregates (decide and evolve), projections of their events, and commands between them.

export { GiveUp, RetryLater, type RetryPolicy } from '../../core/retry.ts'
export type { Quarantined } from '../../engine/subscription/sink.ts'
export type { CatchUpOptions, SubscriptionStatus } from '../../engine/subscription/subscription.ts'
export { type AggregateDefinition, type AggregateOptions, aggregate, type EventEntry } from './aggregate.ts'
export { checkEvents, type EventsCheck } from './check.ts'
export type { AggregateHandle } from './handle.ts'
export type { Happened, When } from './history.ts'
export { type Personal, personal } from './personal.ts'
export {
  command,
  type Outgoing,
  type ProcessManager,
  processManager,
  type RefusedLetter,
  send,
} from './process-manager.ts'
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
export type { ProjectionHandle, RebuildOptions } from './projection-handle.ts'
export { Refused } from './refused.ts'
export { type Rewritten, rewrite } from './rewrite.ts'
export { checked, type StandardSchema } from './schema.ts'
export { partitionOf } from './source.ts'
export type { CommandInfo, CommandOptions, Done, EventInfo, EventOf, Metadata } from './types.ts'
