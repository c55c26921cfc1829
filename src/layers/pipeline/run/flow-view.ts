// The view of a pipeline's flow: current for a run in this process, from the last checkpoint for any other. A shared pipeline
// has one view of all its tasks.

import type { Head } from '../../../core/store/ports.ts'
import type { Host } from '../../../engine/host/host.ts'
import type { FlowPart, FlowView } from '../../../engine/model/flow-metrics.ts'
import type { Checkpoints } from './checkpoints.ts'
import type { Flow } from './flow.ts'
import { Neighbours } from './pace.ts'
import { readHeader } from './restore.ts'
import { sharedAttribute } from './state.ts'
import { taskPartition } from './task-name.ts'

/** The maximum number of tasks of a shared pipeline in a view. */
const tasksMax = 256

export interface LiveRun {
  /** Null: records do not flow yet. */
  view(): FlowView | null
}

const runsHere = {}

/** The runs of this process, by timeline. */
export function liveRuns(engine: Host): Map<string, LiveRun> {
  return engine.once(runsHere, () => new Map<string, LiveRun>())
}

const neighboursHere = {}

export function neighboursOf(engine: Host): Neighbours {
  return engine.once(neighboursHere, () => new Neighbours())
}

export function viewOf(flow: Flow | null, checkpoints: Checkpoints | null): FlowView | null {
  if (!flow || !checkpoints) return null
  const { failures, lastFailure, state } = checkpoints
  const checkpoint = state.recent.at(-1) ?? null
  return { from: 'process', ...flow.moment(), checkpoint, failures, lastFailure, tasks: [] }
}

export async function flowOf(engine: Host, head: Head): Promise<FlowView | null> {
  if (head.attributes[sharedAttribute] !== true) return await flowOfOne(engine, head)
  const below = await engine.list({ prefix: head.timeline, limit: tasksMax })
  const tasks = below.filter(({ timeline }) => taskPartition(head.timeline, timeline) !== null)
  const views = await Promise.all(tasks.map((task) => flowOfOne(engine, task)))
  return together(
    tasks.map(({ timeline }) => timeline),
    views.flatMap((view) => view ?? []),
  )
}

async function flowOfOne(engine: Host, { timeline }: Head): Promise<FlowView | null> {
  const live = liveRuns(engine).get(timeline)?.view()
  if (live) return live
  const [record] = await engine.catalogOf(timeline)
  const header = record && (await readHeader(engine.kernel, record))
  if (!record || !header?.flow) return null
  const { createdAt: at, totalBytes: bytes, addedBytes, trigger: kind } = record
  // The duration is known once the checkpoint is made, so the next checkpoint contains it.
  const checkpoint = {
    ...{ checkpoint: header.checkpoint, kind, at, bytes, addedBytes },
    ms: null,
    longestStallMs: null,
  }
  return { from: 'checkpoint', ...header.flow, checkpoint, failures: 0, lastFailure: null, tasks: [] }
}

/** Combines tasks: sums of counters, means of shares, the lowest watermark and the oldest time. */
export function together(tasks: readonly string[], views: readonly FlowView[]): FlowView | null {
  const [first, ...others] = views
  if (!first) return null
  const checkpoints = views.flatMap(({ checkpoint }) => checkpoint ?? [])
  const failing = views.find(({ failures }) => failures > 0)
  return {
    from: views.every(({ from }) => from === 'process') ? 'process' : 'checkpoint',
    at: Math.min(...views.map(({ at }) => at)),
    spanMs: Math.max(...views.map(({ spanMs }) => spanMs)),
    lateRecords: sum(views.map(({ lateRecords }) => lateRecords)),
    parts: first.parts.map((part) => {
      const same = others.flatMap(({ parts }) => parts.find(({ name }) => name === part.name) ?? [])
      return partTogether([part, ...same])
    }),
    checkpoint: checkpoints.sort((a, b) => b.at - a.at)[0] ?? null,
    failures: failing?.failures ?? 0,
    lastFailure: failing?.lastFailure ?? null,
    tasks,
  }
}

function partTogether(parts: readonly FlowPart[]): FlowPart {
  const mean = (pick: (part: FlowPart) => number) => sum(parts.map(pick)) / parts.length
  const watermarks = parts.flatMap(({ watermark }) => watermark ?? [])
  const lags = parts.flatMap(({ lagMs }) => lagMs ?? [])
  return {
    ...parts[0]!,
    records: sum(parts.map(({ records }) => records)),
    perSecond: sum(parts.map(({ perSecond }) => perSecond)),
    busy: mean(({ busy }) => busy),
    backpressured: mean(({ backpressured }) => backpressured),
    idle: mean(({ idle }) => idle),
    watermark: watermarks.length > 0 ? Math.min(...watermarks) : null,
    lagMs: lags.length > 0 ? Math.max(...lags) : null,
    keys: sum(parts.map(({ keys }) => keys)),
    inFlight: sum(parts.map(({ inFlight }) => inFlight)),
    isEnded: parts.every(({ isEnded }) => isEnded),
  }
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0)
}
