// reprise/workflow: durable workflows and sagas.

export type { BreakerPolicy } from '../../core/retry/breaker.ts'
export type { CallPolicy } from '../../core/retry/call-policy.ts'
export type { RatePolicy } from '../../core/retry/rate.ts'
export { GiveUp, RetryLater, type RetryPolicy } from '../../core/retry/retry.ts'
export { type LogFields, type Logger, logOf } from '../../engine/base/log.ts'
export type { Probed } from '../../engine/history/effects.ts'
export type { SchemaIssue, SchemaResult, StandardSchema } from '../../engine/model/schema.ts'
export type {
  AnyWorkflow,
  Branch,
  ChildArguments,
  ChildOptions,
  LoopContext,
  RaceOptions,
  StepCall,
  StepOptions,
  StepSettings,
  Stop,
  TransactionOptions,
  UndoCall,
  WithCompensate,
  WithoutUndo,
  WithUndo,
  WorkflowCode,
  WorkflowContext,
  WorkflowFunction,
} from './context.ts'
export {
  type BackfillOptions,
  type BackfillReport,
  type DagDefinition,
  type DagFunction,
  type DagMemo,
  type DagNode,
  type DagNodes,
  type DagResults,
  type DagSlice,
  dag,
} from './dag.ts'
export { type WorkflowDefinition, workflow } from './definition.ts'
export type { WorkflowRuns, Workflows } from './handle/batch.ts'
export { type BatchReport, type RunQuery, type RunSummary, workflows } from './handle/batch.ts'
export type { UpdateOptions } from './handle/query-update.ts'
export type {
  RunCancelOptions,
  RunRerunOptions,
  RunRollbackOptions,
  RunTerminateOptions,
  RunUndoOptions,
} from './handle/rollback-options.ts'
export { type RunForkOptions, type SettleOptions, WorkflowRun } from './handle/run.ts'
export type { ResultOptions, RunStatus } from './handle/run-view.ts'
export type { StepOutcome } from './handle/settle.ts'
export type { Outcome } from './history/dependants.ts'
export type { End, Item, NotedWait, ParentLink, StandingStep, Started } from './history/entries.ts'
export type { Failure } from './history/failure.ts'
export type { Journal } from './history/journal.ts'
export type { GraphStep, RerunPlan } from './history/rerun.ts'
export type { OpenCommand, Rerun, RunState, Undo } from './history/state.ts'
export { summarizeWorkflow, type Wait, type WorkflowSummary } from './history/summary.ts'
export type { Carried } from './messages.ts'
export {
  type QueryDefinition,
  query,
  type SignalDefinition,
  signal,
  type UpdateDefinition,
  update,
} from './messages.ts'
export { workflowKind } from './model.ts'
export type { StartOptions, WorkflowOptions } from './options.ts'
export { type QueueDefinition, queue } from './queue/queue.ts'
export type { QueueOptions } from './queue/queue-state.ts'
export type { CronTimes, IntervalTimes, ScheduleSettings } from './queue/schedule.ts'
export { type ScheduleDefinition, type ScheduleOptions, schedule } from './queue/schedule.ts'
export { type CheckedRun, type CheckOptions, type CheckReport, checkDefinitions } from './tools/check.ts'
export type { RecordedEntry } from './tools/export.ts'
export { exportHistory, loadHistory, type RecordedHistory, saveHistory } from './tools/export.ts'
