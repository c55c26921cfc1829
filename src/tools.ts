// reprise/tools: options and reports of the tools that work on every model: verify, repair, drill, back up, erase, move, ship.

export type { Consistency } from './core/checkpoint/consistency.ts'
export type { RetentionPlan, RetentionVerdict } from './core/checkpoint/retention.ts'
export type { CascadeStep, Exchange } from './core/history/recovery-line.ts'
export type { Before, RollbackPlan } from './engine/branch/rollback-plan.ts'
export type { AcceptLossOptions } from './engine/storage/losses.ts'
export { renewStore } from './engine/storage/open-store.ts'
export type { ChangeKind, StoreChange } from './engine/storage/store-change.ts'
export type { TierRequests } from './engine/storage/tiered-blobs.ts'
export type { AddShardOptions } from './engine/tools/add-shard.ts'
export type { BadCheckpoint } from './engine/tools/bad-checkpoint.ts'
export type { Axes, Axis } from './engine/tools/drill/axes.ts'
export type { RecoveryCard } from './engine/tools/drill/card.ts'
export type { DrillOptions, DrillReport, DrillResult } from './engine/tools/drill/drill.ts'
export type { LossBudget } from './engine/tools/drill/loss-budget.ts'
export type { Report, ReportFilter } from './engine/tools/drill/report-log.ts'
export type { EraseEntriesReport } from './engine/tools/erase/entries.ts'
export type { EraseReport } from './engine/tools/erase/erase.ts'
export type { AffectedTimeline, EraseEntriesOptions, ErasePlan } from './engine/tools/erase/plan.ts'
export type { EntryFilter, EntrySelection, Selected, Target as ErasureTarget } from './engine/tools/erase/select.ts'
export type { MoveTiersOptions, TierReport, TiersReport } from './engine/tools/housekeeping/blob-tiers.ts'
export type { CollectOptions, CollectReport, Unreadable } from './engine/tools/housekeeping/collect.ts'
export type { DeletedTimeline, DeleteOptions, DeleteReport } from './engine/tools/housekeeping/delete.ts'
export type { ExpiredForks } from './engine/tools/housekeeping/fork-expiry.ts'
export type { HistoryReport } from './engine/tools/housekeeping/history-tiers.ts'
export {
  type HousekeepingReport,
  type HousekeepingState,
  housekeepingRound,
  housekeepingState,
} from './engine/tools/housekeeping/housekeeping.ts'
export type { RekeyOptions, RekeyReport } from './engine/tools/rekey.ts'
export type { GiveUpOptions, GiveUpReport } from './engine/tools/repair/give-up.ts'
export type { ShippedRestore, ShippedRestoreOptions } from './engine/tools/shipping/restore.ts'
export { type RestoreShippedOptions, restoreShipped, type ShipOptions } from './engine/tools/shipping/ship.ts'
export type { ShipStatus } from './engine/tools/shipping/status.ts'
export type { ShipPoint } from './engine/tools/shipping/target.ts'
export type { CutSchedule, CutScheduleOptions } from './engine/tools/timeline-groups/cut-schedule.ts'
export type { CaptureOptions, GroupCut, GroupRestore } from './engine/tools/timeline-groups/groups.ts'
export type {
  CutState,
  CutStatus,
  GroupPlan,
  GroupTarget,
  MemberPlan,
  RestoreState,
  RolledMember,
} from './engine/tools/timeline-groups/records.ts'
export type { GroupRestored, GroupRestoreOptions } from './engine/tools/timeline-groups/restore.ts'
export type { BackupOptions, BackupReport, RestoreOptions, RestoreReport } from './engine/tools/transfer/backup.ts'
export type { AbandonedChange, ResumeOptions } from './engine/tools/transfer/change-actions.ts'
export type { ExportOptions } from './engine/tools/transfer/export.ts'
export type { Imported, ImportOptions } from './engine/tools/transfer/import.ts'
export type { MoveBackOptions, Moved, MoveOptions } from './engine/tools/transfer/move.ts'
export type {
  EarlierVerify,
  Fault,
  HealedFault,
  VerifyOptions,
  VerifyProgress,
  VerifyReport,
} from './engine/tools/verify/verify.ts'
