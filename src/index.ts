// The public face of the kernel. Layers have subpaths of their own: reprise/workflow, reprise/job, …

export type { BreakerPolicy } from './core/breaker.ts'
export type { CallPolicy } from './core/call-policy.ts'
export type { ClassCodec } from './core/codec/codec.ts'
export type { Coordinate } from './core/coordinate.ts'
export type { Duration } from './core/duration.ts'
export type { CheckpointPolicy } from './core/economics.ts'
export type { Effect } from './core/effects.ts'
export { type ErrorCode, errorCodes, explain, isReprise, RepriseError } from './core/errors.ts'
export type { Upcasters } from './core/fold.ts'
export { Keyed, keyed } from './core/keyed/keyed.ts'
export type { Limits } from './core/limits.ts'
export type { FeedPosition, Head, ManifestRecord, Sql, Store, WorkerRow } from './core/ports.ts'
export { feedStart } from './core/ports.ts'
export type { RatePolicy } from './core/rate.ts'
export type { RetentionPolicy } from './core/retention.ts'
export { GiveUp, isGiveUp, isRetryLater, RetryLater, type RetryPolicy } from './core/retry.ts'
export type { Validity } from './core/validity.ts'
export type { Engine, OpenOptions, Past } from './engine/definition.ts'
export type { EngineEvents } from './engine/events.ts'
export type { CaptureOptions, GroupCut, GroupRestore, Groups } from './engine/group/groups.ts'
export type { GroupPlan, GroupTarget, MemberPlan, RolledMember } from './engine/group/records.ts'
export type { GroupRestored, GroupRestoreOptions } from './engine/group/restore.ts'
export type { Actions, Model, Verb } from './engine/model.ts'
export { createEngine, type EngineOptions, type Options, open, type Ports } from './engine/open.ts'
export type { Pending } from './engine/pending.ts'
export {
  type EntryInfo,
  type TimelineDefinition,
  type TimelineHandle,
  type TimelineOptions,
  timeline,
} from './engine/raw.ts'
export type { Before, RollbackPlan } from './engine/recovery/before.ts'
export type { BadCheckpoint } from './engine/recovery/mark.ts'
export type { RecoveryReport } from './engine/recovery/report.ts'
export type { Reprise } from './engine/reprise.ts'
export type { Hashing } from './engine/seal/keys.ts'
export type { RekeyOptions, RekeyReport } from './engine/seal/rekey.ts'
export type { KeyRing } from './engine/seal/seal.ts'
export type { SqlName } from './engine/sql.ts'
export type { BackupOptions, BackupReport, RestoreReport } from './engine/tools/backup.ts'
export type { RecoveryCard } from './engine/tools/card.ts'
export type { CollectReport } from './engine/tools/collect.ts'
export type { DeletedTimeline, DeleteOptions, DeleteReport } from './engine/tools/delete.ts'
export type { DrillReport } from './engine/tools/drill.ts'
export type { EraseReport } from './engine/tools/erase.ts'
export type { EraseEntriesReport } from './engine/tools/erase-entries.ts'
export type { AffectedTimeline, EraseEntriesOptions } from './engine/tools/erase-plan.ts'
export type { EntryFilter, EntrySelection } from './engine/tools/erase-select.ts'
export {
  type HousekeepingOptions,
  type HousekeepingReport,
  type HousekeepingState,
  housekeepingRound,
  housekeepingState,
} from './engine/tools/housekeeping.ts'
export type { Moved, MoveOptions } from './engine/tools/move.ts'
export type { Report, ReportFilter } from './engine/tools/report-log.ts'
export type { StoreTools } from './engine/tools/store-tools.ts'
export type { Fault, VerifyReport } from './engine/tools/verify.ts'
