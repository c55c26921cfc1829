// The agent as its sessions use it: the name, the fold, the options, and the guards of its calls.

import type { CheckpointPolicy } from '../../core/checkpoint/checkpoint-policy.ts'
import type { RetentionPolicy } from '../../core/checkpoint/retention.ts'
import type { Validity } from '../../core/history/validity.ts'
import type { CallPolicy } from '../../core/retry/call-policy.ts'
import type { Fold } from '../../engine/model/definition.ts'
import type { Model as Described, describes } from '../../engine/model/model.ts'
import type { ContextOptions } from './context.ts'
import type { Guardrail } from './guardrail.ts'
import type { LanguageModel, ModelInDoubt, Settings, SimilarCalls } from './message.ts'
import type { CallGuards } from './policy.ts'
import type { SessionState } from './state.ts'
import type { Tools } from './tool.ts'

export interface AgentOptions<Data> {
  /** The user's part of the state. */
  readonly initial?: () => Data
  readonly model?: LanguageModel<Data>
  readonly tools?: Tools
  readonly guardrails?: readonly Guardrail<Data>[]
  readonly settings?: Settings
  /** The most tokens of one model call, and how older turns are summarized to stay below. Default: no limit. */
  readonly context?: ContextOptions<Data>
  readonly similarCalls?: SimilarCalls
  /** Default: 'retry'. */
  readonly modelInDoubt?: ModelInDoubt
  /**
   * Limits of model calls: retry, timeout, rate and breaker. Default: a timeout of 5 minutes without a piece of an
   * answer, and the breaker on.
   */
  readonly modelCalls?: CallPolicy
  /** The maximum number of model calls in one turn. Default: 32. */
  readonly stepsMax?: number
  /**
   * When to checkpoint the state. A turn is durable, and a rollback can reach it, without a checkpoint. Default: after
   * 256 entries.
   */
  readonly checkpoint?: CheckpointPolicy
  readonly retain?: RetentionPolicy
  /** Validates your part of the state (true, false, or the reason) before a checkpoint and after a restore. */
  readonly valid?: Validity<Data>
  /** Change it when the meaning of your data changes, and add a function to `migrations` for the older data. */
  readonly version?: string | number
  /** By older `version`: converts its data to the current version, in the state and in the history of edits. */
  readonly migrations?: Readonly<Record<string, (data: never) => Data>>
}

export interface AgentSpec<Data> {
  readonly [describes]: Described
  readonly kind: 'agent'
  readonly name: string
  readonly prefix: string
  readonly fold: Fold<SessionState<Data>>
  readonly options: AgentOptions<Data>
  /** @internal */
  readonly guards: CallGuards
  /** Recorded with edited data. */
  readonly dataVersion: string
}
