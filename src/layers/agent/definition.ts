// agent(): a definition of sessions. A plain value: a name, the state a session starts with, the model, the tools, the
// guardrails, and what to do when a restored session asks for almost what it already did.

import { timelineId } from '../../core/coordinate.ts'
import { type CheckpointPolicy, checkPolicy } from '../../core/economics.ts'
import { RepriseError } from '../../core/errors.ts'
import { type RetentionPolicy, resolveRetention } from '../../core/retention.ts'
import type { Validity } from '../../core/validity.ts'
import { checkName, type Entity, type Fold, type OpenOptions, opens } from '../../engine/definition.ts'
import type { Host } from '../../engine/host.ts'
import { type Described, describes } from '../../engine/model.ts'
import type { Guardrail } from './guardrail.ts'
import type { Model, Settings } from './message.ts'
import { agentModel, usualCheckpoint } from './model.ts'
import { CallGuards, type CallPolicy } from './policy.ts'
import { Session } from './session.ts'
import { applyEntry, emptySession, type SessionState } from './state.ts'
import type { Tools } from './tool.ts'
import { dataVersions } from './versions.ts'

/** A call that is almost one that stands already: ask a person, go on in a fork, or make it as a new one. */
export type SimilarCalls = 'conflict' | 'fork' | 'new'

/**
 * A model call that a crash cut off: ask again under the same key and let the answer begin anew, ask with what was
 * streamed so far (`partial`) for the rest only, or hold for a person.
 */
export type ModelInDoubt = 'retry' | 'continue' | 'hold'

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
  /** Retry, timeout and breaker of model calls; a failure that looks like passing is tried again four times in all. */
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

export interface AgentDefinition<Data> extends Entity<Session<Data>>, Described {
  readonly kind: 'agent'
  readonly name: string
  readonly prefix: string
  readonly fold: Fold<SessionState<Data>>
  readonly options: AgentOptions<Data>
  readonly guards: CallGuards
  /** Noted with data that is edited. */
  readonly dataVersion: string
}

/**
 * A turn costs its entries and nothing more: they are what a session is restored from. A capture only shortens the way
 * there, and one a turn would write about ten times what the turn changed, so there is one in some forty turns.
 */
const defaultPolicy: CheckpointPolicy = usualCheckpoint

/** @example const support = agent('support', { initial: () => ({ order: '' }), model, tools: { refund } }) */
export function agent<Data = null>(name: string, options: AgentOptions<Data> = {}): AgentDefinition<Data> {
  checkName('agent', name)
  if (options.checkpoint) checkPolicy(options.checkpoint)
  if (options.retain) resolveRetention(options.retain)
  const prefix = `agent/${name}/`
  const dataVersion = String(options.version ?? 1)
  const versions = dataVersions<Data>(name, dataVersion, options.migrations)
  const fold: Fold<SessionState<Data>> = {
    ...versions.fold,
    initial: () => emptySession((options.initial ? options.initial() : null) as Data),
    apply: (state, entry) => applyEntry(state, entry.type === 'edited' ? versions.bringUp(entry) : entry),
    checkpoint: options.checkpoint ?? defaultPolicy,
    compressAboveBytes: 512,
    retain: options.retain,
    valid: options.valid && (({ data }) => options.valid!(data)),
  }
  const definition: AgentDefinition<Data> = {
    get [describes]() {
      return model
    },
    kind: 'agent',
    name,
    prefix,
    fold,
    options,
    guards: new CallGuards(options.modelCalls),
    dataVersion,
    async [opens](engine: Host, id: string | undefined, open: OpenOptions) {
      if (id === undefined) throw new RepriseError('INVALID_ARGUMENT', `open(${name}, id): the id is missing`)
      engine.declare(model)
      return await Session.open(engine, definition, timelineId(prefix + id), open)
    },
  }
  const model = agentModel(definition)
  return definition
}
