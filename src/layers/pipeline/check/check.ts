// The determinism check: the same input from the same checkpoint must produce the same output. The check reads input from the
// position of a checkpoint and replays it three times: twice unchanged, under different clock times, and once with a restart in
// the middle. It owns, acknowledges and writes nothing. A difference is reported with its operator and first record.

import type { Duration } from '../../../core/duration.ts'
import { toMs } from '../../../core/duration.ts'
import { RepriseError } from '../../../core/errors.ts'
import { isWithin } from '../../../core/history/scope.ts'
import { checkCount, checkList, checkOptions, namesOf } from '../../../core/options.ts'
import type { ManifestRecord } from '../../../core/store/ports.ts'
import { type Host, hostOf } from '../../../engine/host/host.ts'
import type { Engine } from '../../../engine/model/definition.ts'
import { draws, type PipelineDefinition } from '../definition.ts'
import type { Graph } from '../graph.ts'
import { matchNames } from '../run/code-changes.ts'
import { scaleOf } from '../run/options.ts'
import { readHeader, readTables } from '../run/restore.ts'
import { type PipelineState, sharedAttribute } from '../run/state.ts'
import { taskPartition } from '../run/task-name.ts'
import type { Source } from '../source.ts'
import { compareTraces } from './compare.ts'
import { farMs, Outside } from './outside.ts'
import { type Recording, recordInput } from './recording.ts'
import { type ReplayOf, replay } from './replay.ts'

export interface PipelineCheckOptions {
  /** A checkpoint or savepoint. Default: the oldest kept checkpoint with later input. */
  readonly from?: string
  /** The maximum number of records to replay. Default: 10,000. */
  readonly records?: number
  /** A source that returns no records for this long is treated as ended. Default: 1s. */
  readonly quiet?: Duration
  /** Substitute sources with decoded records, by source name. Required for a source that permits one reader at a time. */
  readonly inputs?: Readonly<Record<string, Source<unknown>>>
  /**
   * Substitute functions, by name of a `call`. Calls are not made; operators after a call without a substitute are not
   * checked.
   */
  readonly calls?: Readonly<Record<string, (value: never) => unknown>>
}

export interface CheckedPipeline {
  readonly timeline: string
  readonly ok: boolean
  /** The checkpoint where the replay started; null: the beginning. */
  readonly from: string | null
  readonly records: number
  /** The operator whose output differed. */
  readonly step: string | null
  readonly problem: string | null
  /** Parts that were not checked, with the reason, and uses of clock or randomness that made no difference. */
  readonly notes: readonly string[]
}

export interface PipelineCheckReport {
  readonly ok: boolean
  readonly checked: readonly CheckedPipeline[]
}

const known = namesOf<PipelineCheckOptions>()('from records quiet inputs calls')

/** @example const { ok, checked } = await checkPipelines(rp, [revenue]) */
export async function checkPipelines(
  rp: Engine,
  definitions: readonly PipelineDefinition[],
  options: PipelineCheckOptions = {},
): Promise<PipelineCheckReport> {
  checkOptions('check', options, known)
  const { records = 10_000 } = options
  checkCount('records', records)
  checkList('the definitions to check', definitions)
  checkNames(definitions, options)
  const engine = hostOf(rp)
  const checked: CheckedPipeline[] = []
  for (const definition of definitions) {
    for (const target of await targetsOf(engine, definition)) {
      checked.push(await checkOne(engine, definition, target, options))
    }
  }
  return { ok: checked.every(({ ok }) => ok), checked }
}

interface CheckTarget {
  readonly timeline: string
  /** The only partition that a task reads. */
  readonly only: readonly string[] | null
}

/** Every run and task of the pipeline in the store; the pipeline itself if it never ran. */
async function targetsOf(engine: Host, { prefix }: PipelineDefinition): Promise<CheckTarget[]> {
  const targets: CheckTarget[] = []
  for await (const { timeline, attributes, status } of engine.each({ prefix })) {
    if (status === 'archived' || attributes[sharedAttribute] === true) continue
    if (!isWithin(prefix, timeline)) continue
    const partition = taskPartition(prefix, timeline)
    targets.push({ timeline, only: partition === null ? null : [partition] })
  }
  return targets.length > 0 ? targets : [{ timeline: prefix, only: null }]
}

async function checkOne(
  engine: Host,
  definition: PipelineDefinition,
  { timeline, only }: CheckTarget,
  options: PipelineCheckOptions,
): Promise<CheckedPipeline> {
  const draw = () => definition[draws]()
  const graph = draw()
  const { inputs = {} } = options
  const exclusive = graph.sources.find(({ name, source }) => source.isExclusive && !Object.hasOwn(inputs, name))
  const base = { timeline, ok: true, from: null, records: 0, step: null, problem: null }
  if (exclusive) {
    const what = `not checked: ${exclusive.name} allows one reader at a time: replace it with recorded input (inputs, --input ${exclusive.name}=FILE)`
    return { ...base, notes: [what] }
  }
  try {
    const found = await findInput(engine, graph, timeline, only, options)
    if (found.recording.inputs.length === 0) {
      return { ...base, from: found.record?.id ?? null, notes: ['not checked: there was no input to replay'] }
    }
    return await replayAll(engine, { timeline, draw, graph, options, ...found })
  } catch (error) {
    if (!(error instanceof RepriseError) || error.code === 'CLOSED') throw error
    // The code no longer fits its checkpoints, or a source cannot be read: the message has the reason.
    return { ...base, ok: false, problem: error.message, notes: [] }
  }
}

interface Found {
  readonly record: ManifestRecord | null
  readonly state: PipelineState | null
  readonly storedAs: (name: string) => string | null
  readonly recording: Recording
}

/** The oldest checkpoint with later input. Default: the beginning. */
async function findInput(
  engine: Host,
  graph: Graph,
  timeline: string,
  only: readonly string[] | null,
  options: PipelineCheckOptions,
): Promise<Found> {
  const { kernel } = engine
  const head = await engine.head(timeline)
  const records = head ? (await kernel.store.checkpoints(head.timeline)).filter(({ invalid }) => invalid === null) : []
  const { from } = options
  const requested = from === undefined ? [...records].reverse() : records.filter(({ id }) => id === from)
  if (from !== undefined && requested.length === 0) {
    throw new RepriseError('NOT_FOUND', `${timeline} has no checkpoint ${from}`, { timeline, id: from })
  }
  const candidates = from === undefined ? [...requested.slice(0, 1), null] : requested
  let last: Found | null = null
  for (const record of candidates) {
    const state = record && (await readHeader(kernel, record))
    const names = state && matchNames(graph, state)
    const storedAs = (name: string) => (names ? (names.get(name) ?? null) : null)
    const recording = await recordInput({
      ...{ engine: engine as Engine, clock: kernel.clock, pipeline: timeline, graph, state, storedAs, only },
      inputs: new Map(Object.entries(options.inputs ?? {})),
      records: options.records ?? 10_000,
      quietMs: toMs(options.quiet ?? '1s', 'quiet'),
    })
    last = { record, state, storedAs, recording }
    if (recording.inputs.length > 0) break
  }
  return last!
}

interface Replaying extends Found {
  readonly timeline: string
  draw(): Graph
  readonly graph: Graph
  readonly options: PipelineCheckOptions
}

async function replayAll(engine: Host, what: Replaying): Promise<CheckedPipeline> {
  const { kernel } = engine
  const { timeline, draw, graph, options, record, state, storedAs, recording } = what
  const resources = await graph.open(engine)
  const of: ReplayOf = {
    ...{ pipeline: timeline, draw, recording, codec: kernel.codec, random: kernel.random, resources },
    scale: scaleOf({}, state),
    replaced: new Map(Object.entries(options.inputs ?? {}).map(([name, { decode = null }]) => [name, decode])),
    calls: options.calls ?? {},
    async fill(tables) {
      if (record && state) await readTables(kernel, record, state, tables, (name) => storedAs(name) ?? name)
    },
  }
  const outsides = [new Outside(0), new Outside(farMs), new Outside(0)] as const
  const [first, second, third] = await replayThrice(of, outsides).finally(() => {
    for (const resource of resources.values()) resource.close()
  })
  const order = [...graph.sources, ...graph.operators].map(({ name }) => name)
  const compared = { order, recording, codec: kernel.codec, outside: outsides[0] }
  const difference =
    compareTraces(compared, first, second, 'again') ?? compareTraces(compared, first, third, 'restarted')
  const notes = notesOf(graph, outsides[0], options)
  const base = { timeline, from: record?.id ?? null, records: recording.inputs.length, notes }
  return { ...base, ok: difference === null, step: difference?.operator ?? null, problem: difference?.problem ?? null }
}

async function replayThrice(of: ReplayOf, outsides: readonly [Outside, Outside, Outside]) {
  const first = await replay(of, outsides[0], null)
  const second = await replay(of, outsides[1], null)
  return [first, second, await replay(of, outsides[2], of.recording.inputs.length >> 1)] as const
}

function notesOf(graph: Graph, outside: Outside, { calls = {} }: PipelineCheckOptions): string[] {
  const unmade = graph.operators.filter(({ name, state }) => state === 'calls' && !Object.hasOwn(calls, name))
  return [
    ...unmade.map(({ name }) => `not checked: the operators after ${name}, a call that is not repeated (calls)`),
    ...outside.askers.map((name) => `${name} uses ${outside.askedBy(name).join(', ')}`),
  ]
}

/** Refuses names that no pipeline has; they would otherwise be ignored silently. */
function checkNames(definitions: readonly PipelineDefinition[], options: PipelineCheckOptions): void {
  const graphs = definitions.map((definition) => definition[draws]())
  const sources = graphs.flatMap((graph) => graph.sources.map(({ name }) => name))
  const calls = graphs.flatMap((graph) => graph.operators.flatMap(({ name, state }) => (state === 'calls' ? name : [])))
  checkOptions('check, inputs', options.inputs, new Set(sources))
  checkOptions('check, calls', options.calls, new Set(calls))
}
