// agent(): a definition of sessions. It is a plain value: a name, the initial state, the model, the tools, the
// guardrails, and the policy for a restored session that repeats an earlier call almost exactly.

import { type CheckpointPolicy, checkPolicy } from '../../core/checkpoint/checkpoint-policy.ts'
import { resolveRetention } from '../../core/checkpoint/retention.ts'
import { timelineId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import { checkList, checkObject, checkOptions, checkValues, namesOf } from '../../core/options.ts'
import { checkFunctions } from '../../core/synchronous.ts'
import type { Host } from '../../engine/host/host.ts'
import {
  checkName,
  type Entity,
  type Fold,
  type OpenOptions,
  opens,
  type Workable,
  works,
} from '../../engine/model/definition.ts'
import { describes } from '../../engine/model/model.ts'
import { checkContext } from './context.ts'
import { resumeDue } from './due.ts'
import { settingValues } from './message.ts'
import { agentModel, usualCheckpoint } from './model.ts'
import { CallGuards } from './policy.ts'
import { Session } from './session.ts'
import type { AgentOptions, AgentSpec } from './spec.ts'
import { applyEntry, emptySession, type SessionState } from './state.ts'
import { checkTool } from './tool.ts'
import { dataVersions } from './versions.ts'

/** Worked on (`rp.work`, `reprise work`), its sessions resume once a decision arrives. */
export interface AgentDefinition<Data> extends AgentSpec<Data>, Entity<Session<Data>, string>, Workable {}

/**
 * A session is restored from the entries of its turns. A checkpoint only makes that faster, and one per turn would
 * write about ten times as much as the turn changed, so there is one in about forty turns.
 */
const defaultPolicy: CheckpointPolicy = usualCheckpoint

const known = namesOf<AgentOptions<unknown>>()(
  'initial model tools guardrails settings context similarCalls modelInDoubt modelCalls stepsMax checkpoint retain valid version migrations',
)

const values = { similarCalls: settingValues.similarCalls, modelInDoubt: ['retry', 'continue', 'hold'] }

/** @example const support = agent('support', { initial: () => ({ order: '' }), model, tools: { refund } }) */
export function agent<Data = null>(name: string, options: AgentOptions<Data> = {}): AgentDefinition<Data> {
  checkName('agent', name)
  checkOptions(`agent ${name}`, options, known)
  checkFunctions(`agent ${name}`, options, [], ['initial', 'model', 'valid'])
  checkValues(`agent ${name}`, options, values)
  checkValues(`settings of agent ${name}`, options.settings, settingValues)
  checkContext(name, options.context)
  if (options.checkpoint) checkPolicy(options.checkpoint)
  if (options.retain) resolveRetention(options.retain)
  if (options.tools !== undefined) checkObject(`agent ${name}: tools`, options.tools)
  for (const each of Object.values(options.tools ?? {})) checkTool(each)
  if (options.guardrails !== undefined) checkList(`agent ${name}: guardrails`, options.guardrails)
  for (const each of options.guardrails ?? []) checkFunctions(`a guardrail of agent ${name}`, each, ['check'])
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
    [works](engine: Host) {
      engine.declare(model)
      resumeDue(engine, definition)
    },
  }
  const model = agentModel(definition)
  return definition
}
