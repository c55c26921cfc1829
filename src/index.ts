// The public API of the kernel. Layers have their own subpaths: reprise/workflow, reprise/job, …

export type { BreakerPolicy } from './core/calls/breaker.ts'
export type { CallPolicy } from './core/calls/call-policy.ts'
export type { RatePolicy } from './core/calls/rate.ts'
export { GiveUp, isGiveUp, isRetryLater, RetryLater, type RetryPolicy } from './core/calls/retry.ts'
export type { CheckpointInterval, CheckpointPolicy } from './core/checkpoint/checkpoint-policy.ts'
export type { MeasuredCosts } from './core/checkpoint/costs.ts'
export type { ChunkRef, Segment } from './core/checkpoint/manifest.ts'
export type { RetentionPlan, RetentionPolicy, Verdict } from './core/checkpoint/retention.ts'
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
export type { Duration, Time } from './core/duration.ts'
export type { Remedy } from './core/errors.ts'
export { type ErrorCode, errorCodes, explain, isReprise, RepriseError } from './core/errors.ts'
export type { CompensationPlan, Effect, EffectState, InheritedEffect, Reversal } from './core/history/effects.ts'
export type { Renamed, Upcast, Upcasters } from './core/history/fold.ts'
export type { Inherited } from './core/history/inheritance.ts'
export type { CascadeStep, Exchange } from './core/history/recovery-line.ts'
export type { Validity } from './core/history/validity.ts'
export type { KeyedRange } from './core/keyed/keyed.ts'
export { Keyed, keyed } from './core/keyed/keyed.ts'
export type { Owner, Page, PageWrite, StoredPage, Unread } from './core/keyed/page.ts'
export type { Limits } from './core/limits.ts'
export type { Rewritable } from './core/store/blobs.ts'
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
} from './core/store/ports.ts'
export { feedStart } from './core/store/ports.ts'
export type { Grown, GrowProgress, GrowRequest, ShardRow } from './core/store/shards.ts'
export type {
  Inspected,
  Inspection,
  LossRecord,
  Renewal,
  ShardClock,
  StoreFacts,
  StoreFault,
  StoreLoss,
} from './core/store/store-facts.ts'
export type { WorkerRecord } from './core/store/worker-row.ts'
export type { Nothing } from './core/synchronous.ts'
export { createEngine, type EngineOptions, type Options, open, type Ports } from './engine/api/open.ts'
export type { Reprise } from './engine/api/reprise.ts'
export type { Appended, AppendOptions, Make } from './engine/api/timeline-definition.ts'
export {
  type EntryInfo,
  type TimelineDefinition,
  type TimelineHandle,
  type TimelineOptions,
  timeline,
} from './engine/api/timeline-definition.ts'
export type { EngineEvents, EventName, Events, Listener } from './engine/base/events.ts'
export type { Asked, Pending } from './engine/base/pending.ts'
export type { ProcessIdentity } from './engine/base/platform.ts'
export type { RecoveryReport } from './engine/base/recovery-report.ts'
export type { Reads } from './engine/branch/consumers.ts'
export type { CapturedMail } from './engine/branch/exchanges.ts'
export type { RollbackOptions } from './engine/branch/rollback.ts'
export type { CheckpointRequest, PublishedCheckpoint } from './engine/checkpoint/checkpointer.ts'
export type { Savepoint, SavepointOptions } from './engine/checkpoint/savepoint.ts'
export type { FollowOptions, Replica } from './engine/feed/follow.ts'
export type { CompensateOptions, EffectCall, EffectOptions, Effects, Probed } from './engine/history/effects.ts'
export type { Entry } from './engine/history/history.ts'
export type { Where } from './engine/history/locate.ts'
export type { Folding } from './engine/host/host.ts'
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
} from './engine/model/definition.ts'
export type { NewEntry } from './engine/model/entry.ts'
export type { Exchanged, ExchangeReader, SentMail } from './engine/model/exchange-reader.ts'
export type { FlowCheckpoint, FlowMoment, FlowPart, FlowView } from './engine/model/flow-metrics.ts'
export type { EditedFork, ForkEdit, ForkEdits, ForkMark, ForkOptions } from './engine/model/fork-edit.ts'
export type { RowPhase, RowSort, StatusLine, Told } from './engine/model/journal-row.ts'
export type { Asker, Recallable, Recalling, SharedFrom } from './engine/model/memo-protocol.ts'
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
} from './engine/model/model.ts'
export type { Consumer, Rollback } from './engine/model/rollback-report.ts'
export type { AcceptLossOptions } from './engine/storage/losses.ts'
export { renewStore, type StoreOptions } from './engine/storage/open-store.ts'
export type { Hashing } from './engine/storage/seal/keys.ts'
export type { KeyRing } from './engine/storage/seal/seal.ts'
export type { Wrappable } from './engine/storage/seal/wrap.ts'
export type { ChangeKind, StoreChange } from './engine/storage/store-change.ts'
export type { TierOptions, TiersOptions } from './engine/storage/tier-policy.ts'
export type { TierRequests } from './engine/storage/tiered-blobs.ts'
export type { AddShardOptions } from './engine/tools/add-shard.ts'
export type { Before, RollbackPlan } from './engine/tools/before.ts'
export type { RecoveryCard } from './engine/tools/drill/card.ts'
export type { DrillOptions, DrillReport, DrillResult } from './engine/tools/drill/drill.ts'
export type { Report, ReportFilter } from './engine/tools/drill/report-log.ts'
export type { EraseEntriesReport } from './engine/tools/erase/entries.ts'
export type { EraseReport } from './engine/tools/erase/erase.ts'
export type { AffectedTimeline, EraseEntriesOptions, ErasePlan } from './engine/tools/erase/plan.ts'
export type { EntryFilter, EntrySelection, Selected, Target as ErasureTarget } from './engine/tools/erase/select.ts'
export type { CaptureOptions, GroupCut, GroupRestore, Groups } from './engine/tools/group/groups.ts'
export type {
  CutState,
  CutStatus,
  GroupPlan,
  GroupTarget,
  MemberPlan,
  RestoreState,
  RolledMember,
} from './engine/tools/group/records.ts'
export type { GroupRestored, GroupRestoreOptions } from './engine/tools/group/restore.ts'
export type { MoveTiersOptions, TierReport, TiersReport } from './engine/tools/housekeeping/blob-tiers.ts'
export type { CollectOptions, CollectReport, Unreadable } from './engine/tools/housekeeping/collect.ts'
export type { DeletedTimeline, DeleteOptions, DeleteReport } from './engine/tools/housekeeping/delete.ts'
export type { ExpiredForks } from './engine/tools/housekeeping/fork-expiry.ts'
export type { HistoryReport } from './engine/tools/housekeeping/history-tiers.ts'
export {
  type HousekeepingOptions,
  type HousekeepingReport,
  type HousekeepingState,
  housekeepingRound,
  housekeepingState,
} from './engine/tools/housekeeping/housekeeping.ts'
export type { BadCheckpoint } from './engine/tools/mark.ts'
export type { RekeyOptions, RekeyReport } from './engine/tools/rekey.ts'
export type { GiveUpOptions, GiveUpReport } from './engine/tools/repair/give-up.ts'
export type { ShippedRestore, ShippedRestoreOptions } from './engine/tools/ship/restore.ts'
export { type RestoreShippedOptions, restoreShipped, type ShipOptions } from './engine/tools/ship/ship.ts'
export type { ShipStatus } from './engine/tools/ship/status.ts'
export type { ShipPoint } from './engine/tools/ship/target.ts'
export type { SqlName } from './engine/tools/sql.ts'
export type { StoreTools } from './engine/tools/store-tools.ts'
export type { BackupOptions, BackupReport, RestoreOptions, RestoreReport } from './engine/tools/transfer/backup.ts'
export type { AbandonedChange, ResumeOptions } from './engine/tools/transfer/change-actions.ts'
export type { Imported, ImportOptions } from './engine/tools/transfer/import.ts'
export type { Moved, MoveOptions } from './engine/tools/transfer/move.ts'
export type { ExportOptions } from './engine/tools/transfer/transfer.ts'
export type {
  EarlierVerify,
  Fault,
  HealedFault,
  VerifyOptions,
  VerifyProgress,
  VerifyReport,
} from './engine/tools/verify/verify.ts'
