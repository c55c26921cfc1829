// The public API of the kernel. Layers have their own subpaths: reprise/workflow, reprise/job, … The contract of a store is in
// reprise/store, the descriptor of a model in reprise/model, options and reports of the tools in reprise/tools.

export type { CheckpointInterval, CheckpointPolicy } from './core/checkpoint/checkpoint-policy.ts'
export type { RetentionPolicy } from './core/checkpoint/retention.ts'
export type { ClassCodec } from './core/codec/class-codec.ts'
export type { Coordinate } from './core/coordinate.ts'
export type { Duration, Time } from './core/duration.ts'
export { type ErrorCode, errorCodes, explain, isReprise, type Remedy, RepriseError } from './core/errors.ts'
export type { CompensationPlan, Effect, EffectState, InheritedEffect, Reversal } from './core/history/effects.ts'
export type { Renamed, Upcast, Upcasters } from './core/history/fold.ts'
export type { Inherited } from './core/history/inheritance.ts'
export type { Validity } from './core/history/validity.ts'
export { Keyed, type KeyedRange, keyed } from './core/keyed-state/keyed.ts'
export type { Limits } from './core/limits.ts'
export type { BreakerPolicy } from './core/retry/breaker.ts'
export type { CallPolicy } from './core/retry/call-policy.ts'
export type { RatePolicy } from './core/retry/rate.ts'
export { GiveUp, isGiveUp, isRetryLater, RetryLater, type RetryPolicy } from './core/retry/retry.ts'
export {
  type Attribute,
  type FeedItem,
  type FeedPage,
  type FeedPosition,
  feedStart,
  type Head,
  type Sql,
  type TimelineQuery,
} from './core/store/ports.ts'
export type { Nothing } from './core/synchronous.ts'
export { type EngineOptions, type Options, open } from './engine/api/open.ts'
export type { Reprise } from './engine/api/reprise.ts'
export {
  type Appended,
  type AppendOptions,
  type EntryInfo,
  type Make,
  type TimelineDefinition,
  type TimelineHandle,
  type TimelineOptions,
  timeline,
} from './engine/api/timeline-definition.ts'
export type { WorkReport, WorkUntilOptions } from './engine/api/work-until.ts'
export type { EngineEvents, EventName, Events, Listener } from './engine/base/events.ts'
export { type LogFields, type Logged, type Logger, type LogPlace, logOf } from './engine/base/log.ts'
export type { AsyncMethods, Pending } from './engine/base/pending-handle.ts'
export type { RecoveryReport } from './engine/base/recovery-report.ts'
export type { StopOptions } from './engine/base/stop-options.ts'
export type { RollbackOptions } from './engine/branch/rollback.ts'
export type { CheckpointRequest, PublishedCheckpoint } from './engine/checkpoint/checkpointer.ts'
export type { Savepoint, SavepointOptions } from './engine/checkpoint/savepoint.ts'
export type { FollowOptions, Replica } from './engine/feed/replica.ts'
export type { CompensateOptions, EffectCall, EffectOptions, Effects, Probed } from './engine/history/effects.ts'
export type { Entry } from './engine/history/history.ts'
export type { TimelinePoint } from './engine/history/locate.ts'
export type { HandedOver } from './engine/host/host.ts'
export type { Engine, Erased, Fold, OpenOptions, StateAt, StateMigrations } from './engine/model/definition.ts'
export type { NewEntry } from './engine/model/entry.ts'
export type { ForkEdit, ForkEdits, ForkOptions } from './engine/model/fork-edit.ts'
export type { Consumer, Rollback } from './engine/model/rollback-report.ts'
export type { StoreOptions } from './engine/storage/open-store.ts'
export type { Hashing } from './engine/storage/seal/keys.ts'
export type { KeyRing } from './engine/storage/seal/seal.ts'
export type { Wrappable } from './engine/storage/seal/wrap.ts'
export type { TierOptions, TiersOptions } from './engine/storage/tier-policy.ts'
export type { HousekeepingOptions } from './engine/tools/housekeeping/housekeeping.ts'
export type { SqlName } from './engine/tools/sql.ts'
export type { StoreTools } from './engine/tools/store-tools.ts'
export type { Groups } from './engine/tools/timeline-groups/groups.ts'
