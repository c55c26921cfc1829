// What a session knows of its agent: the name, how history folds, the options, and the guards of its calls.

import type { CallPolicy } from '../../core/calls/call-policy.ts'
import type { CheckpointPolicy } from '../../core/checkpoint/checkpoint-policy.ts'
import type { RetentionPolicy } from '../../core/checkpoint/retention.ts'
import type { Validity } from '../../core/history/validity.ts'
import type { Fold } from '../../engine/model/definition.ts'
import type { Model as Described, describes } from '../../engine/model/model.ts'
import type { Guardrail } from './guardrail.ts'
import type { Model, ModelInDoubt, Settings, SimilarCalls } from './message.ts'
import type { CallGuards } from './policy.ts'
import type { SessionState } from './state.ts'
import type { Tools } from './tool.ts'

export interface AgentOptions<Data> {
  /** Your own part of the state. */
  readonly initial?: () => Data
  readonly model?: Model<Data>
  readonly tools?: Tools
  readonly guardrails?: readonly Guardrail<Data>[]
  readonly settings?: Settings
  readonly similarCalls?: SimilarCalls
  /** 'retry' if left out. */
  readonly modelInDoubt?: ModelInDoubt
  /** Bounds of model calls: retry, timeout (5 minutes without a piece of an answer, if left out), rate, and breaker (on). */
  readonly modelCalls?: CallPolicy
  /** Model calls in one turn at most; 32 if left out. */
  readonly stepsMax?: number
  /** When to capture the state; after 256 entries if left out. A turn is durable and can be gone back to without it. */
  readonly checkpoint?: CheckpointPolicy
  readonly retain?: RetentionPolicy
  /** Whether your part of the state makes sense (true, false, or why not): asked before a capture and after a restore. */
  readonly valid?: Validity<Data>
  /** Change it when the meaning of your data changes, and say in `migrations` how older data becomes it. */
  readonly version?: string | number
  /** By older `version`: how its data becomes today's, in state and in the history of edits. */
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
  /** Noted with data that is edited. */
  readonly dataVersion: string
}
