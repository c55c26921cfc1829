// The plan of a pipeline that runs on several threads: which task has which part. Parts with several instances are placed on
// worker threads, the instances divided evenly; sources, sinks and parts with one instance stay in the main thread. A task is one
// stage (rules/stages.ts) in one thread, and the unit of a barrier: it is captured as a whole.

import { RepriseError } from '../../../core/errors.ts'
import type { Edge, Graph, OperatorNode, SinkNode } from '../graph.ts'
import { disorderedBranches, isCrossing, type StagePart, stagesOf } from '../rules/stages.ts'
import { type Scale, widthsOf } from '../run/wiring.ts'

type Node = OperatorNode | SinkNode

/** The main thread; worker threads count from 1. */
export const mainThread = 0

export interface StageTaskPlan {
  /** The index in the plan. */
  readonly task: number
  readonly stage: number
  readonly thread: number
  /** @example 'stage 1 on thread 2' */
  readonly name: string
  /** The tasks that send it records or barriers. Each is a channel, in this order. */
  readonly from: readonly number[]
  readonly to: readonly number[]
}

export interface StagePlan {
  readonly threads: number
  readonly tasks: readonly StageTaskPlan[]
  /** The task that keeps dead letters: all other tasks have a channel to it. */
  readonly last: number
  taskOf(node: Node, instance: number): number
  /** The names of the parts of each stage, for people. */
  readonly stages: readonly StageView[]
}

export interface StageView {
  readonly stage: number
  /** 0: the main thread. */
  readonly threads: readonly number[]
  /** The parts call each other: no record is copied between them. */
  readonly parts: readonly string[]
  /** The reason the records of this stage cross to it. */
  readonly why: string
}

/** Null: no operator has several instances, so nothing can be placed on other threads. */
export function planOf(name: string, graph: Graph, scale: Scale, threadsMax: number): StagePlan | null {
  const threads = Math.min(threadsMax, scale.parallelism)
  const { parts, indexes } = partsOf(graph, scale)
  if (!parts.some(({ width }) => width > 1)) return null
  const stages = stagesOf(parts)
  const disordered = disorderedBranches(parts, stages)
  if (disordered !== null) {
    const { fork, meeting } = disordered
    const what = `the pipeline ${name} cannot run on several threads: branches of ${fork} meet again in ${meeting} after different numbers of keyBy(), and their records would lose their order. Omit threads`
    throw new RepriseError('INVALID_ARGUMENT', what, { fork, meeting })
  }
  const threadOf = (part: number, instance: number) =>
    parts[part]!.width === 1 ? mainThread : 1 + Math.floor((instance * threads) / parts[part]!.width)
  const deepest = Math.max(...stages.map((stage, i) => stage + (parts[i]!.width > 1 ? 1 : 0)))
  const places = new Map<string, { readonly stage: number; readonly thread: number }>()
  const put = (stage: number, thread: number) => places.set(`${stage}/${thread}`, { stage, thread })
  put(0, mainThread)
  for (const [i, { width }] of parts.entries()) {
    for (let instance = 0; instance < width; instance++) put(stages[i]!, threadOf(i, instance))
  }
  put(deepest, mainThread)
  const sorted = [...places.values()].sort((a, b) => a.stage - b.stage || a.thread - b.thread)
  const taskAt = (stage: number, thread: number) => sorted.findIndex((at) => at.stage === stage && at.thread === thread)
  const last = taskAt(deepest, mainThread)
  const channels = channelsOf(sorted, parts, stages, last)
  const tasks = sorted.map(({ stage, thread }, task): StageTaskPlan => {
    const place = thread === mainThread ? 'in the main thread' : `on thread ${thread}`
    const [from, to] = [channels.filter((each) => each.to === task), channels.filter((each) => each.from === task)]
    return {
      ...{ task, stage, thread, name: `stage ${stage} ${place}` },
      ...{ from: from.map((each) => each.from), to: to.map((each) => each.to) },
    }
  })
  const taskOf = (node: Node, instance: number) => {
    const part = indexes.get(node)!
    return taskAt(stages[part]!, threadOf(part, instance))
  }
  return { threads, tasks, last, taskOf, stages: viewsOf(parts, stages, threads) }
}

/** The parts in the order of the plan, by name and width: two threads have the same plan exactly if these are equal. */
export function outlineOf(graph: Graph, scale: Scale): string {
  const { parts } = partsOf(graph, scale)
  const kinds = new Map(graph.operators.map(({ name, state }) => [name, state]))
  return JSON.stringify(parts.map((part) => [part.name, kinds.get(part.name) ?? null, part.width, part.from]))
}

/** The operators and sinks of a graph, numbered: the same in every thread. */
export function nodesOf({ operators, sinks }: Graph): readonly Node[] {
  return [...operators, ...sinks]
}

function partsOf(graph: Graph, scale: Scale) {
  const widths = widthsOf(graph, scale.parallelism)
  const from = new Map<Node, number[]>()
  const feed = (edges: readonly Edge[], i: number) => {
    for (const { to } of edges) from.set(to, [...(from.get(to) ?? []), i])
  }
  for (const [i, { outlet }] of graph.sources.entries()) feed(outlet, i)
  const nodes = nodesOf(graph)
  const first = graph.sources.length
  const indexes = new Map(nodes.map((node, i) => [node, first + i]))
  for (const node of graph.operators) feed(node.outlets.flat(), indexes.get(node)!)
  const sources = graph.sources.map(({ name }): StagePart => ({ name, width: 1, isExchange: false, from: [] }))
  const others = nodes.map((node): StagePart => {
    const isExchange = node.kind === 'operator' && node.isExchange
    const width = node.kind === 'operator' ? widths.get(node)! : 1
    return { name: node.name, width, isExchange, from: from.get(node) ?? [] }
  })
  return { parts: [...sources, ...others], indexes }
}

interface Place {
  readonly stage: number
  readonly thread: number
}

/**
 * Every task has a channel from the first one, for its barriers and for letters that are sent back, and one to the last, for
 * dead letters. Between other tasks there is a channel if a stream crosses from one to the other.
 */
function channelsOf(places: readonly Place[], parts: readonly StagePart[], stages: readonly number[], last: number) {
  const pairs = new Set<string>()
  places.forEach((_, task) => {
    if (task !== 0) pairs.add(`0/${task}`)
    if (task !== last) pairs.add(`${task}/${last}`)
  })
  for (const [i, part] of parts.entries()) {
    for (const from of part.from) {
      const isSame = stages[from] === stages[i] && !isCrossing(parts[from]!, part)
      if (isSame) continue
      const has = (place: Place, at: number) =>
        place.stage === stages[at] && parts[at]!.width > 1 === (place.thread !== mainThread)
      for (const [a, before] of places.entries()) {
        for (const [b, after] of places.entries()) {
          if (has(before, from) && has(after, i)) pairs.add(`${a}/${b}`)
        }
      }
    }
  }
  return [...pairs].map((pair) => pair.split('/').map(Number)).map(([from, to]) => ({ from: from!, to: to! }))
}

function whyCrossed(parts: readonly StagePart[], i: number): string {
  const part = parts[i]!
  if (part.from.length === 0) return 'sources are read in the main thread, which has their positions'
  const from = part.from.map((each) => parts[each]!).find((each) => isCrossing(each, part))
  if (!from) return 'parts with one instance are in the main thread'
  return part.width > 1
    ? `${from.name} sends each record to one of ${part.width} instances`
    : `results of ${from.width} instances meet in one`
}

function viewsOf(parts: readonly StagePart[], stages: readonly number[], threads: number): StageView[] {
  const views = new Map<string, Omit<StageView, 'parts'> & { readonly parts: string[] }>()
  for (const [i, { name, width }] of parts.entries()) {
    const at = `${stages[i]}/${width > 1}`
    const all = width > 1 ? Array.from({ length: threads }, (_, thread) => thread + 1) : [mainThread]
    const view = views.get(at) ?? { stage: stages[i]!, threads: all, parts: [], why: whyCrossed(parts, i) }
    view.parts.push(name)
    views.set(at, view)
  }
  return [...views.values()].sort((a, b) => a.stage - b.stage || a.threads[0]! - b.threads[0]!)
}
