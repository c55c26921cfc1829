// The shares and rates of a flow over the last seconds: the gain of its counters since a sample some seconds old.

import type { FlowMoment, FlowPart } from '../../../engine/model/flow-metrics.ts'
import type { Edge, Graph } from '../graph.ts'
import type { Operator } from '../operator.ts'
import type { StagePlan } from '../stages/plan.ts'
import type { Waits } from './backpressure.ts'
import { type Counts, watermarkOf } from './computing-time.ts'
import type { RunningSource } from './running-source.ts'
import { type TaskSample, taskRates } from './task-rates.ts'

const sampleEveryMs = 1000
/** Counters are compared with the oldest sample. */
const samplesMax = 6

/** Counters of one part, from the start of the run. */
export interface PartFigures
  extends Pick<FlowPart, 'name' | 'records' | 'watermark' | 'lagMs' | 'keys' | 'inFlight' | 'isEnded'> {
  readonly busyMs: number
  /** The time that the flow waited for this part. */
  readonly waitedMs: number
}

export interface Sample extends TaskSample {
  readonly parts: readonly PartFigures[]
  /** The time that the flow waited for checkpoints. */
  readonly checkpointsMs: number
  /** The total waiting time, with overlapping waits counted once. */
  readonly waitedMs: number
}

interface Place {
  readonly kind: FlowPart['kind']
  readonly to: readonly string[]
  /** All parts that its records reach. */
  readonly below: ReadonlySet<string>
}

export class Figures {
  readonly #places: ReadonlyMap<string, Place>
  readonly #read: () => Sample
  readonly #plan: StagePlan | null
  readonly #samples: Sample[] = []

  /** `plan`: null if all parts are in one thread. */
  constructor(graph: Graph, plan: StagePlan | null, read: () => Sample) {
    this.#plan = plan
    this.#places = placesOf(graph)
    this.#read = read
  }

  /** The flow calls this often; it takes one sample per second. */
  sample(elapsedMs: number): void {
    const last = this.#samples.at(-1)
    if (last && elapsedMs - last.elapsedMs < sampleEveryMs) return
    this.#samples.push(this.#read())
    if (this.#samples.length > samplesMax) this.#samples.shift()
  }

  now(): Pick<FlowMoment, 'spanMs' | 'parts' | 'stages'> {
    const now = this.#read()
    const before = this.#samples[0] ?? now
    const stages = this.#plan && taskRates(this.#plan, before, now)
    return { ...sharesOf(this.#places, before, now), ...(stages && { stages }) }
  }
}

export function sharesOf(places: ReadonlyMap<string, Place>, before: Sample, now: Sample) {
  const spanMs = Math.max(0, now.elapsedMs - before.elapsedMs)
  const earlier = new Map(before.parts.map((part) => [part.name, part]))
  const waited = new Map(now.parts.map((part) => [part.name, part.waitedMs - (earlier.get(part.name)?.waitedMs ?? 0)]))
  const allMs = now.waitedMs - before.waitedMs
  const checkpointsMs = now.checkpointsMs - before.checkpointsMs
  const later = new Map(now.parts.map((part) => [part.name, part]))
  const parts = [...places].map(([name, { kind, to, below }]): FlowPart => {
    const { busyMs, waitedMs: _, ...part } = later.get(name)!
    const was = earlier.get(name)
    const busy = Math.min(spanMs, busyMs - (was?.busyMs ?? 0) + waited.get(name)!)
    let held = kind === 'sink' ? 0 : checkpointsMs
    for (const after of below) held += waited.get(after) ?? 0
    const backpressured = Math.min(spanMs - busy, held, allMs)
    const share = (ms: number) => (spanMs > 0 ? ms / spanMs : 0)
    return {
      ...{ ...part, kind, to },
      perSecond: spanMs > 0 ? ((part.records - (was?.records ?? 0)) * 1000) / spanMs : 0,
      ...{ busy: share(busy), backpressured: share(backpressured) },
      idle: spanMs > 0 ? Math.max(0, 1 - share(busy) - share(backpressured)) : 1,
    }
  })
  return { spanMs, parts }
}

/** The parts in the order in which they were drawn. */
function placesOf(graph: Graph): Map<string, Place> {
  const places = new Map<string, Place>()
  const put = (name: string, kind: FlowPart['kind'], edges: readonly Edge[]) => {
    const to = [...new Set(edges.map((edge) => edge.to.name))]
    const below = new Set(to)
    for (const next of to) for (const after of places.get(next)!.below) below.add(after)
    places.set(name, { kind, to, below })
  }
  // Streams are drawn before their readers.
  for (const { name } of graph.sinks) put(name, 'sink', [])
  for (const { name, outlets } of graph.operators.toReversed()) put(name, 'operator', outlets.flat())
  for (const { name, outlet } of graph.sources) put(name, 'source', outlet)
  const drawn = [...graph.sources, ...graph.operators, ...graph.sinks]
  return new Map(drawn.map(({ name }) => [name, places.get(name)!]))
}

export function sourceFigures(source: RunningSource, { busyMs }: Counts, waits: Waits, now: number): PartFigures {
  const { name, records, isEnded, watermark } = source
  return {
    ...{ name, records, busyMs, waitedMs: waits.msFor(name), keys: 0, inFlight: 0, isEnded },
    watermark: Number.isFinite(watermark) ? watermark : null,
    lagMs: source.lagMs(now),
  }
}

export function operatorFigures(
  name: string,
  instances: readonly { readonly operator: Operator }[],
  counts: Counts,
  waits: Waits,
  isEnded: boolean,
): PartFigures {
  let [keys, inFlight] = [0, 0]
  for (const { operator } of instances) {
    inFlight += operator.inFlight?.() ?? 0
    for (const table of operator.tables.values()) keys += table.size
  }
  return { ...sinkFigures(name, inFlight, counts, waits, isEnded), keys }
}

export function sinkFigures(
  name: string,
  inFlight: number,
  counts: Counts,
  waits: Waits,
  isEnded: boolean,
): PartFigures {
  const { records, busyMs } = counts
  const [waitedMs, watermark] = [waits.msFor(name), watermarkOf(counts)]
  return { name, records, busyMs, waitedMs, watermark, lagMs: null, keys: 0, inFlight, isEnded }
}
