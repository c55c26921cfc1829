// The public face of the kernel. Layers have subpaths of their own: reprise/workflow, reprise/job, …

export type { Rewritable } from './core/blobs.ts'
export type { BreakerPolicy } from './core/breaker.ts'
export type { CallPolicy } from './core/call-policy.ts'
export type { CheckpointInterval, CheckpointPolicy } from './core/checkpoint-policy.ts'
export type { ClassCodec } from './core/codec/class-codec.ts'
export type {
  Branded,
  Coordinate,
  Digest,
  ManifestId,
  MessageId,
  OperationId,
  TimelineId,
  WorkerId,
} from './core/coordinate.ts'
export type { MeasuredCosts } from './core/costs.ts'
export type { Duration, Time } from './core/duration.ts'
export type { CompensationPlan, Effect, EffectState, InheritedEffect, Reversal } from './core/effects.ts'
export type { Remedy } from './core/errors.ts'
export { type ErrorCode, errorCodes, explain, isReprise, RepriseError } from './core/errors.ts'
export type { Renamed, Upcast, Upcasters } from './core/fold.ts'
export type { Inherited } from './core/inheritance.ts'
export type { KeyedRange } from './core/keyed/keyed.ts'
export { Keyed, keyed } from './core/keyed/keyed.ts'
export type { Owner, Page, PageWrite, StoredPage, Unread } from './core/keyed/page.ts'
export type { Limits } from './core/limits.ts'
export type { ChunkRef, Segment } from './core/manifest.ts'
export type {
  Attribute,
  Base,
  Clock,
  EntryRun,
  FeedItem,
  FeedPage,
  FeedPosition,
  Hash,
  Head,
  ManifestRecord,
  OutgoingMessage,
  Random,
  Sql,
  Store,
  TimelineQuery,
  WorkerRow,
} from './core/ports.ts'
export { feedStart } from './core/ports.ts'
export type { RatePolicy } from './core/rate.ts'
export type { CascadeStep, Exchange } from './core/recovery-line.ts'
export type { RetentionPlan, RetentionPolicy, Verdict } from './core/retention.ts'
export { GiveUp, isGiveUp, isRetryLater, RetryLater, type RetryPolicy } from './core/retry.ts'
export type { Grown, GrowProgress, GrowRequest, ShardRow } from './core/shards.ts'
export type {
  Inspected,
  Inspection,
  LossRecord,
  Renewal,
  ShardClock,
  StoreFacts,
  StoreFault,
  StoreLoss,
} from './core/store-facts.ts'
export type { Nothing } from './core/synchronous.ts'
export type { Validity } from './core/validity.ts'
export type { WorkerRecord } from './core/worker-row.ts'
export type { CheckpointRequest, PublishedCheckpoint } from './engine/checkpoint/checkpointer.ts'
export type { Savepoint, SavepointOptions } from './engine/checkpoint/savepoint.ts'
export type {
  Engine,
  Entity,
  Erased,
  Fold,
  LayerHost,
  OpenOptions,
  PagedFold,
  Process,
  StateAt,
  StateMigrations,
  Workable,
} from './engine/definition.ts'
export type { CompensateOptions, EffectCall, EffectOptions, Effects, Probed } from './engine/effects.ts'
export type { NewEntry } from './engine/entry.ts'
export type { EngineEvents, EventName, Events, Listener } from './engine/events.ts'
export type { FollowOptions, Replica } from './engine/feed/follow.ts'
export type { FlowCheckpoint, FlowMoment, FlowPart, FlowView } from './engine/flowing.ts'
export type { Exchanged, ExchangeReader, SentMail } from './engine/group/exchange-reader.ts'
export type { CaptureOptions, GroupCut, GroupRestore, Groups } from './engine/group/groups.ts'
export type {
  CapturedMail,
  CutState,
  CutStatus,
  GroupPlan,
  GroupTarget,
  MemberPlan,
  RestoreState,
  RolledMember,
} from './engine/group/records.ts'
export type { GroupRestored, GroupRestoreOptions } from './engine/group/restore.ts'
export type { Folding } from './engine/host.ts'
export type {
  Act,
  Actions,
  Described,
  Done,
  ErasableEntries,
  ForkRequest,
  HeadAgain,
  Instead,
  Model,
  ModelEffect,
  ModelLetter,
  ModelLetters,
  Refusals,
  Surroundings,
  Target as ActionTarget,
  Transfer,
  Verb,
} from './engine/model.ts'
export { createEngine, type EngineOptions, type Options, open, type Ports } from './engine/open.ts'
export { renewStore, type StoreOptions } from './engine/open-store.ts'
export type { Asked, Pending } from './engine/pending.ts'
export type { ProcessIdentity } from './engine/platform.ts'
export type { Appended, AppendOptions, Make } from './engine/raw.ts'
export {
  type EntryInfo,
  type TimelineDefinition,
  type TimelineHandle,
  type TimelineOptions,
  timeline,
} from './engine/raw.ts'
export type { Asker, Recallable, Recalling, SharedFrom } from './engine/recall.ts'
export type { Before, RollbackPlan } from './engine/recovery/before.ts'
export type { Entry } from './engine/recovery/history.ts'
export type { BadCheckpoint } from './engine/recovery/mark.ts'
export type { RecoveryReport } from './engine/recovery/report.ts'
export type { Reprise } from './engine/reprise.ts'
export type { Hashing } from './engine/seal/keys.ts'
export type { RekeyOptions, RekeyReport } from './engine/seal/rekey.ts'
export type { KeyRing } from './engine/seal/seal.ts'
export type { Wrappable } from './engine/seal/wrap.ts'
export type { ShippedRestore, ShippedRestoreOptions } from './engine/ship/restore.ts'
export { type RestoreShippedOptions, restoreShipped, type ShipOptions } from './engine/ship/ship.ts'
export type { ShipStatus } from './engine/ship/status.ts'
export type { ShipPoint } from './engine/ship/target.ts'
export type { SqlName } from './engine/sql.ts'
export type { TierRequests } from './engine/tiers/blobs.ts'
export type { HistoryReport } from './engine/tiers/history.ts'
export type { MoveTiersOptions, TierReport, TiersReport } from './engine/tiers/move.ts'
export type { TierOptions, TiersOptions } from './engine/tiers/policy.ts'
export type { RowPhase, RowSort, StatusLine, Told } from './engine/told.ts'
export type { AddShardOptions } from './engine/tools/add-shard.ts'
export type { BackupOptions, BackupReport, RestoreOptions, RestoreReport } from './engine/tools/backup.ts'
export type { RecoveryCard } from './engine/tools/card.ts'
export type { AbandonedChange, ResumeOptions } from './engine/tools/change-actions.ts'
export type { CollectOptions, CollectReport, Unreadable } from './engine/tools/collect.ts'
export type { Reads } from './engine/tools/consumers.ts'
export type { DeletedTimeline, DeleteOptions, DeleteReport } from './engine/tools/delete.ts'
export type { DrillOptions, DrillReport, DrillResult } from './engine/tools/drill.ts'
export type { EraseReport } from './engine/tools/erase.ts'
export type { EraseEntriesReport } from './engine/tools/erase-entries.ts'
export type { AffectedTimeline, EraseEntriesOptions, ErasePlan } from './engine/tools/erase-plan.ts'
export type { EntryFilter, EntrySelection, Selected, Target as ErasureTarget } from './engine/tools/erase-select.ts'
export type { Where } from './engine/tools/fork.ts'
export type { EditedFork, ForkEdit, ForkEdits, ForkMark, ForkOptions } from './engine/tools/fork-edit.ts'
export type { ExpiredForks } from './engine/tools/fork-expiry.ts'
export type { GiveUpOptions, GiveUpReport } from './engine/tools/give-up.ts'
export {
  type HousekeepingOptions,
  type HousekeepingReport,
  type HousekeepingState,
  housekeepingRound,
  housekeepingState,
} from './engine/tools/housekeeping.ts'
export type { Imported, ImportOptions } from './engine/tools/import.ts'
export type { AcceptLossOptions } from './engine/tools/losses.ts'
export type { Moved, MoveOptions } from './engine/tools/move.ts'
export type { Report, ReportFilter } from './engine/tools/report-log.ts'
export type { RollbackOptions } from './engine/tools/rollback.ts'
export type { Consumer, Rollback } from './engine/tools/rollback-report.ts'
export type { ChangeKind, StoreChange } from './engine/tools/store-change.ts'
export type { StoreTools } from './engine/tools/store-tools.ts'
export type { ExportOptions } from './engine/tools/transfer.ts'
export type {
  EarlierVerify,
  Fault,
  HealedFault,
  VerifyOptions,
  VerifyProgress,
  VerifyReport,
} from './engine/tools/verify.ts'
