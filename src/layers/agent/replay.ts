// Replays a session from its recorded inputs, for audit and for evaluation. An exact replay folds history again (from
// the oldest checkpoint if it was trimmed), compares the result with the stored state, and lists every step with its
// input and output. An evaluation sends the recorded questions to another model (or to the same one with another
// prompt); tools return recorded results and are never called.

import { type TimelineId, toHex } from '../../core/coordinate.ts'
import { Keyed } from '../../core/keyed-state/keyed.ts'
import type { Head } from '../../core/store/ports.ts'
import { checkFunctions } from '../../core/synchronous.ts'
import { entriesOf, lineageOf, type Point, reachOf, readHistory } from '../../engine/history/history.ts'
import { existing } from '../../engine/history/locate.ts'
import { recover } from '../../engine/history/recover.ts'
import { TimelineState } from '../../engine/history/state.ts'
import { type Host, hostOf } from '../../engine/host/host.ts'
import type { Engine } from '../../engine/model/definition.ts'
import { checkFolding } from '../../engine/model/definition.ts'
import { digestOf } from './calls.ts'
import { contextOf } from './context.ts'
import type { LanguageModel, Message, ModelAnswer, ModelPart, Settings, ToolRequest, Usage } from './message.ts'
import { addUsage, noUsage } from './message.ts'
import type { AgentSpec } from './spec.ts'
import type { SessionState } from './state.ts'
import { allowedTools, toolDefinitions } from './tool.ts'

export interface ReplayedStep<Data = unknown> {
  readonly seq: number
  readonly turn: number
  readonly kind: 'model' | 'tool'
  readonly tool: string
  /** The messages for the model, or the arguments of the tool. */
  readonly input: readonly Message[] | unknown
  readonly output: unknown
  readonly data: Data
  readonly plan: unknown
  readonly notes: readonly string[]
  readonly settings: Settings
}

export interface Replay<Data> {
  readonly steps: readonly ReplayedStep<Data>[]
  readonly entries: number
  /** The sequence after which the replay started: 0, or that of the oldest checkpoint if earlier history was trimmed. */
  readonly from: number
  /** The digest of the replayed state, and whether the stored checkpoint and history produce the same one. */
  readonly digest: string
  readonly isExact: boolean
}

/** @example (await replaySession(rp, support, 'ticket-42')).isExact */
export async function replaySession<Data>(rp: Engine, definition: AgentSpec<Data>, id: string): Promise<Replay<Data>> {
  checkFolding(definition)
  const engine = hostOf(rp)
  const { kernel } = engine
  const head = await existing(kernel, (definition.prefix + id) as TimelineId)
  const lineage = await lineageOf(kernel, head)
  const { state, point } = await beginningOf(engine, definition, head, lineage)
  const steps: ReplayedStep<Data>[] = []
  let entries = 0
  const history = readHistory(kernel, lineage, point, head.seq)
  for (let step = await history.next(); !step.done; step = await history.next()) {
    for (const each of entriesOf(kernel, step.value)) {
      entries += 1
      const made = stepOf(state.value, each.type, each.seq, each.data)
      if (made) steps.push(made)
      state.replay([each])
    }
  }
  const stored = await recover(kernel, head, definition.fold)
  const digest = digestOfState(engine, state.value)
  const isExact = digest === digestOfState(engine, stored.state.value)
  return { steps, entries, from: point.seq, digest, isExact }
}

/** The origin; if history was trimmed, the oldest checkpoint from which it can still be replayed. */
async function beginningOf<Data>(
  engine: Host,
  definition: AgentSpec<Data>,
  head: Head,
  lineage: readonly Head[],
): Promise<{ readonly state: TimelineState<SessionState<Data>>; readonly point: Point }> {
  const { kernel } = engine
  const floor = await reachOf(kernel, lineage)
  if (floor.seq === 0)
    return { state: new TimelineState(definition.fold, undefined, kernel.guardsFolds()), point: floor }
  const oldest: number[] = []
  for (const { timeline, seq } of lineage) {
    const records = await kernel.store.checkpoints(timeline)
    oldest.push(...records.filter((record) => record.seq >= floor.seq && record.seq <= seq).map(({ seq: at }) => at))
  }
  for (const seq of oldest.sort((a, b) => a - b)) {
    const recovered = await recover(kernel, head, definition.fold, { to: seq }).catch(() => null)
    if (recovered) return { state: recovered.state, point: recovered.point }
  }
  const { state, point } = await recover(kernel, head, definition.fold)
  return { state, point }
}

function stepOf<Data>(state: SessionState<Data>, type: string, seq: number, data: unknown): ReplayedStep<Data> | null {
  const { turn, data: own, plan, settings } = state
  const common = { seq, turn, data: own, plan, settings, notes: [...state.notes.values()] }
  if (type === 'answered') {
    const { answer } = data as { answer: ModelAnswer }
    return { ...common, kind: 'model', tool: 'model', input: contextOf(state as SessionState<unknown>), output: answer }
  }
  if (type !== 'returned' && type !== 'failed') return null
  const { id, result, error } = data as { id: string; result?: unknown; error?: string }
  const call = state.calls.get(id)
  if (!call || call.kind === 'model') return null
  return { ...common, kind: 'tool', tool: call.tool, input: call.args, output: type === 'failed' ? { error } : result }
}

/** Digests each value separately: references shared in memory are not part of the state. */
function digestOfState(engine: Host, state: SessionState<unknown>): string {
  const { codec, hash } = engine
  const digests: string[] = []
  const add = (name: string, value: unknown) => digests.push(`${name} ${toHex(hash(codec.encode(value)))}`)
  for (const [name, value] of Object.entries(state).sort(([a], [b]) => (a < b ? -1 : 1))) {
    if (value instanceof Keyed) for (const [key, item] of value) add(`${name}/${key}`, item)
    else add(name, value)
  }
  return toHex(hash(new TextEncoder().encode(digests.join('\n'))))
}

export interface EvaluatedStep {
  readonly seq: number
  readonly turn: number
  readonly recorded: ModelAnswer
  readonly candidate: ModelAnswer
  /** The same tools with the same arguments in the same order (or none on both sides). */
  readonly isSameAction: boolean
  readonly isSameContent: boolean
}

export interface Evaluation {
  readonly steps: readonly EvaluatedStep[]
  readonly sameActions: number
  readonly usage: { readonly recorded: Usage; readonly candidate: Usage }
}

/** Sends every recorded question to another model or with another prompt. Nothing is written and no tool is called. */
export async function evaluateSession<Data>(
  rp: Engine,
  definition: AgentSpec<Data>,
  id: string,
  candidate: { readonly model: LanguageModel<Data>; readonly settings?: Settings },
): Promise<Evaluation> {
  checkFunctions('evaluateSession', candidate, ['model'])
  const engine = hostOf(rp)
  const { steps } = await replaySession(engine, definition, id)
  const tools = definition.options.tools ?? {}
  const evaluated: EvaluatedStep[] = []
  for (const step of steps) {
    if (step.kind !== 'model') continue
    const settings = { ...definition.options.settings, ...step.settings, ...candidate.settings }
    const names = allowedTools(tools, settings)
    const answer = await settle(
      candidate.model({
        messages: step.input as readonly Message[],
        data: step.data,
        plan: step.plan,
        notes: step.notes,
        settings,
        tools: names,
        toolDefinitions: toolDefinitions(tools, names),
        // A new key: this question was never sent before.
        key: `evaluation-${toHex(engine.random.bytes(16))}`,
        attempt: 1,
        partial: '',
        isContinued: false,
        signal: undefined,
      }),
    )
    const recorded = step.output as ModelAnswer
    const digests = (requests: readonly ToolRequest[] = []) =>
      requests.map(({ tool, args }) => digestOf(engine.kernel, tool, args)).join()
    evaluated.push({
      seq: step.seq,
      turn: step.turn,
      recorded,
      candidate: answer,
      isSameAction: digests(recorded.requests) === digests(answer.requests),
      isSameContent: digestOf(engine.kernel, '', recorded.content) === digestOf(engine.kernel, '', answer.content),
    })
  }
  const sum = (of: 'recorded' | 'candidate') =>
    evaluated.reduce((usage, step) => addUsage(usage, step[of].usage), noUsage)
  return {
    steps: evaluated,
    sameActions: evaluated.filter((step) => step.isSameAction).length,
    usage: { recorded: sum('recorded'), candidate: sum('candidate') },
  }
}

async function settle(made: Promise<ModelAnswer> | ModelAnswer | AsyncIterable<ModelPart>): Promise<ModelAnswer> {
  if (!(typeof made === 'object' && Symbol.asyncIterator in made)) return await made
  let content = ''
  let rest: Omit<Partial<ModelAnswer>, 'content'> = {}
  for await (const part of made) {
    if ('text' in part) content += part.text
    else rest = { ...rest, ...part }
  }
  return { ...rest, content }
}
