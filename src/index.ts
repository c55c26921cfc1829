// The public face of the kernel. Layers have subpaths of their own: reprise/workflow, reprise/job, …

export type { ClassCodec } from './core/codec.ts'
export type { Coordinate } from './core/coordinate.ts'
export type { Duration } from './core/duration.ts'
export type { CheckpointPolicy } from './core/economics.ts'
export type { Effect } from './core/effects.ts'
export { type ErrorCode, errorCodes, explain, isReprise, RepriseError } from './core/errors.ts'
export type { Upcasters } from './core/fold.ts'
export { Keyed, keyed } from './core/keyed.ts'
export type { Limits } from './core/limits.ts'
export type { FeedPosition, Head, ManifestRecord, Sql, Store, WorkerRow } from './core/ports.ts'
export { feedStart } from './core/ports.ts'
export type { RetentionPolicy } from './core/retention.ts'
export type { Validity } from './core/validity.ts'
export type { BackupOptions, BackupReport, RestoreReport } from './engine/backup.ts'
export type { Before, RollbackPlan } from './engine/before.ts'
export type { RecoveryCard } from './engine/card.ts'
export type { CollectReport } from './engine/collect.ts'
export type { OpenOptions } from './engine/definition.ts'
export type { DeletedTimeline, DeleteOptions, DeleteReport } from './engine/delete.ts'
export type { DrillReport } from './engine/drill.ts'
export type { EraseReport } from './engine/erase.ts'
export type { EngineEvents } from './engine/events.ts'
export type { GroupPlan, GroupTarget, MemberPlan, RolledMember } from './engine/group-records.ts'
export type { GroupRestored, GroupRestoreOptions } from './engine/group-restore.ts'
export type { CaptureOptions, GroupCut, GroupRestore, Groups } from './engine/groups.ts'
export {
  type HousekeepingOptions,
  type HousekeepingReport,
  type HousekeepingState,
  housekeepingRound,
  housekeepingState,
} from './engine/housekeeping.ts'
export type { BadCheckpoint } from './engine/mark.ts'
export type { Actions, Model, Verb } from './engine/model.ts'
export type { Moved, MoveOptions } from './engine/move.ts'
export { createEngine, type EngineOptions, type Options, open, type Ports } from './engine/open.ts'
export type { Pending } from './engine/pending.ts'
export {
  type EntryInfo,
  type TimelineDefinition,
  type TimelineHandle,
  type TimelineOptions,
  timeline,
} from './engine/raw.ts'
export type { RekeyOptions, RekeyReport } from './engine/rekey.ts'
export type { RecoveryReport } from './engine/report.ts'
export type { Report, ReportFilter } from './engine/report-log.ts'
export type { Past, Reprise } from './engine/reprise.ts'
export type { KeyRing } from './engine/seal.ts'
export type { Hashing } from './engine/seal-keys.ts'
export type { SqlName } from './engine/sql.ts'
export type { StoreTools } from './engine/store-tools.ts'
export type { Fault, VerifyReport } from './engine/verify.ts'
