// reprise/agent: sessions of agents, one timeline each. See docs/guides/agents.md.

export type { RecoveryLine } from '../../core/history/recovery-line.ts'
export type { BreakerPolicy } from '../../core/retry/breaker.ts'
export type { CallPolicy } from '../../core/retry/call-policy.ts'
export type { RatePolicy } from '../../core/retry/rate.ts'
export { GiveUp, RetryLater, type RetryPolicy } from '../../core/retry/retry.ts'
export { type LogFields, type Logger, logOf } from '../../engine/base/log.ts'
export type { SchemaIssue, SchemaResult, StandardSchema } from '../../engine/model/schema.ts'
export { type BranchView, compareSessions, mergeBranch, type SessionComparison } from './branches.ts'
export type { CallOutcome } from './calls.ts'
export type { ContextOptions } from './context.ts'
export { sendDecision, type ToolDecision, type ToolVerdict } from './decision.ts'
export { type AgentDefinition, agent } from './definition.ts'
export { type Guardrail, type GuardrailView, noLoops, withinBudget } from './guardrail.ts'
export type {
  LanguageModel,
  Message,
  ModelAnswer,
  ModelCall,
  ModelInDoubt,
  ModelPart,
  Settings,
  SimilarCalls,
  ToolRequest,
  Usage,
} from './message.ts'
export { type AnthropicModelOptions, anthropicModel } from './models/anthropic.ts'
export { type HttpModelOptions, ModelHttpError, type ModelPrice } from './models/http.ts'
export { openAIModel } from './models/openai.ts'
export type { SessionRollback, SessionRollbackOptions, TurnOptions, TurnResult } from './options.ts'
export type { EvaluatedStep } from './replay.ts'
export { type Evaluation, evaluateSession, type Replay, type ReplayedStep, replaySession } from './replay.ts'
export type { PlannedCall, SessionRollbackPlan } from './rollback.ts'
export type { Session } from './session.ts'
export { type Cut, groupRecoveryLine, type Received, readCut, restoreCut } from './session-group.ts'
export type { AgentOptions, AgentSpec } from './spec.ts'
export type {
  AwaitedDecision,
  CallRecord,
  FileRecord,
  RollbackAsked,
  SessionCut,
  SessionState,
  StandingCall,
  TurnRecord,
} from './state.ts'
export { readTurn, type StreamEvent, type StreamPosition } from './stream.ts'
export type { AnyTool, NoToolCompensation, ToolCommon, ToolCompensation, Tools } from './tool.ts'
export { type Tool, type ToolContext, type ToolDefinition, type ToolKind, tool } from './tool.ts'
export type { WorkspaceReport } from './workspace.ts'
export type { WorkspaceOptions } from './workspace-ignore.ts'
