// reprise/workflow: durable workflows and sagas.

export type { BreakerPolicy } from '../../core/breaker.ts'
export type { CallPolicy } from '../../core/call-policy.ts'
export type { RatePolicy } from '../../core/rate.ts'
export { GiveUp, RetryLater, type RetryPolicy } from '../../core/retry.ts'
export type { WorkflowRuns, Workflows } from './batch.ts'
export { type BatchReport, type RunQuery, type RunSummary, workflows } from './batch.ts'
export { type CheckedRun, type CheckOptions, type CheckReport, checkDefinitions } from './check.ts'
export type {
  AnyWorkflow,
  Branch,
  ChildArguments,
  ChildOptions,
  LoopContext,
  Probed,
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
export { type WorkflowDefinition, workflow } from './definition.ts'
export type { End, Item, NotedWait, ParentLink, Standing, Started } from './entries.ts'
export type { RecordedEntry } from './export.ts'
export { exportHistory, loadHistory, type RecordedHistory, saveHistory } from './export.ts'
export type { Failure } from './failure.ts'
export type { Journal } from './journal.ts'
export { type LogFields, type Logger, logOf } from './log.ts'
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
export type { UpdateOptions } from './questions.ts'
export { type QueueDefinition, queue } from './queue.ts'
export type { QueueOptions } from './queue-state.ts'
export type { RunCancelOptions, RunRollbackOptions } from './rollback-options.ts'
export { type RunForkOptions, WorkflowRun } from './run.ts'
export type { ResultOptions, RunStatus } from './run-view.ts'
export type { CronTimes, IntervalTimes, ScheduleSettings } from './schedule.ts'
export { type ScheduleDefinition, type ScheduleOptions, schedule } from './schedule.ts'
export type { Outcome } from './settle.ts'
export type { OpenCommand, RunState, Undo } from './state.ts'
export { summarizeWorkflow, type Wait, type WorkflowSummary } from './summary.ts'
