// The operators of a graph as instances that call each other. After a `keyBy`, each operator has as many instances as the
// parallelism, and each instance owns a contiguous range of key groups; before it, and for state without a key, there is one.
// An instance with several inputs of one stream takes the lowest of their watermarks.
//
// Instances of one process share one thread, so a batch passes through all of them without waiting, and a barrier between two
// batches is aligned on every channel at once: nothing is in flight.

import { groupOf, ownerOf, type PipelineKey } from '../../../core/key-groups.ts'
import { type Batch, type Output, oneByOne, slice, toAll } from '../batch.ts'
import { branchesOf, doOutletsMeet, meetingsOf, reachOf } from '../branches.ts'
import type { Edge, Graph, OperatorNode, SinkNode } from '../graph.ts'
import type { Operator, TimedOperator } from '../operator.ts'
import { mergedInputs } from '../operators/union.ts'
import { Meeting, throughBranches } from './branch-merge.ts'
import { type Busy, type Counts, newCounts } from './computing-time.ts'
import type { NamedTable } from './named-table.ts'
import type { WatermarkGate } from './watermark-gate.ts'

/** The records that an instance gets at a time behind `rebalance`. */
const spreadMax = 256

export interface Scale {
  readonly parallelism: number
  readonly keyGroups: number
}

export interface OperatorInstance {
  readonly node: OperatorNode
  /** Null: there is only one instance. */
  readonly index: number | null
  readonly operator: Operator
}

interface Built {
  /** The instances of this task. */
  readonly instances: readonly OperatorInstance[]
  readonly counts: Counts
}

/** The feeder of an input: its number of instances. */
interface Feed {
  readonly width: number
  readonly isExchange: boolean
  readonly isSpread: boolean
}

export interface WiringPorts {
  make(node: OperatorNode, outputs: readonly Output[]): Operator
  gateOf(name: string): WatermarkGate
  sinkInput(node: SinkNode): Output
  readonly busy: Pick<Busy, 'counted' | 'spend'>
  /** True: everything emitted during a call is caused by one record of a source. */
  readonly isOneByOne: boolean
  /** Where the other parts of the pipeline are. Default: all of them are here. */
  readonly placement?: Placement | null
}

/** An input of an instance, or a sink. */
export interface Address {
  readonly to: OperatorNode | SinkNode
  readonly input: number
  readonly instance: number
  /** The index of the feeding instance, among those whose watermarks merge in this input. */
  readonly channel: number
  readonly channels: number
}

/** The parts of a pipeline that one task has, and the way to the others. */
export interface Placement {
  has(node: OperatorNode | SinkNode, instance: number): boolean
  /** The output for an input of another task. */
  outputTo(address: Address): Output
}

export class Wiring {
  readonly #scale: Scale
  readonly #ports: WiringPorts
  readonly #widths: ReadonlyMap<OperatorNode, number>
  readonly #built = new Map<OperatorNode, Built>()
  readonly #meetings: ReadonlyMap<OperatorNode, Meeting>
  /** One output per channel, by node, input and instance. */
  readonly #inputs = new Map<OperatorNode, Map<string, readonly Output[]>>()

  constructor(graph: Graph, scale: Scale, ports: WiringPorts) {
    this.#scale = scale
    this.#ports = ports
    this.#widths = widthsOf(graph, scale.parallelism)
    this.#meetings = this.#findMeetings(graph)
    for (const node of graph.operators) this.#build(node)
  }

  /** The input of an instance of this task, for records of another task. */
  inputAt(address: Address): Output {
    const { to, input, instance, channel, channels } = address
    return to.kind === 'sink' ? this.#ports.sinkInput(to) : this.#channel(to, input, instance, channel, channels)
  }

  /** All instances, in the order in which they were drawn. */
  *instances(): Generator<OperatorInstance> {
    for (const { instances } of this.#built.values()) yield* instances
  }

  tables(): NamedTable[] {
    return [...this.instances()].flatMap(({ node, index, operator }) =>
      [...operator.tables].map(([name, table]) => ({ operator: node.name, name, index, table })),
    )
  }

  /** Call it after the tables were filled from a checkpoint. */
  restored(): void {
    for (const { operator } of this.instances()) operator.restored?.()
  }

  tick(now: number): void {
    for (const { operator } of this.instances()) operator.tick?.(now)
  }

  nodes(): IterableIterator<[OperatorNode, Built]> {
    return this.#built.entries()
  }

  /** The output for a source. */
  outputOf(outlet: readonly Edge[]): Output {
    return this.#fanOut(outlet, { index: 0, width: 1, isExchange: false, isSpread: false })
  }

  /** The operators after a source whose results depend on the position of watermarks between its records. */
  timedBehind(outlet: readonly Edge[]): Pick<TimedOperator, 'dueAbove'>[] {
    const reached = reachOf(outlet)
    const behind = [...this.instances()].filter(({ node }) => reached.has(node))
    const here = behind.flatMap(({ operator }) => (operator.dueAbove ? [operator as TimedOperator] : []))
    return [...here, ...this.#timedElsewhere(reached)]
  }

  /** An operator of another task is represented by one without state, if its answer does not depend on its state. */
  #timedElsewhere(reached: ReadonlySet<OperatorNode | SinkNode>): Pick<TimedOperator, 'dueAbove'>[] {
    const elsewhere = [...reached].filter(
      (node) => node.kind === 'operator' && this.#built.get(node)!.instances.length === 0,
    )
    return (elsewhere as OperatorNode[]).flatMap((node) => {
      const outputs = node.outlets.map(() => toAll([]))
      const operator = this.#ports.make(node, outputs)
      if (!operator.dueAbove) return []
      return operator.isDueByState ? [{ dueAbove: (watermark: number) => watermark }] : [operator as TimedOperator]
    })
  }

  /** The index of the instance with the state of this key. */
  indexFor(node: OperatorNode, key: PipelineKey | null): number {
    const { parallelism, keyGroups } = this.#scale
    if (this.#widths.get(node) === 1 || key === null) return 0
    return ownerOf(groupOf(key, keyGroups), parallelism, keyGroups)
  }

  /** The input of an operator for a record that is sent back; null: another task has the instance. */
  inputAgain(node: OperatorNode, instance: number, input: number): Output | null {
    return this.#instanceAt(node, instance)?.operator.inputs[input] ?? null
  }

  #instanceAt(node: OperatorNode, index: number): OperatorInstance | undefined {
    return this.#build(node).instances.find((each) => (each.index ?? 0) === index)
  }

  #isHere(node: OperatorNode | SinkNode, instance: number): boolean {
    return this.#ports.placement?.has(node, instance) ?? true
  }

  #build(node: OperatorNode): Built {
    const held = this.#built.get(node)
    if (held) return held
    const width = this.#widths.get(node)!
    const indexes = Array.from({ length: width }, (_, index) => index).filter((index) => this.#isHere(node, index))
    const instances = indexes.map((index): OperatorInstance => {
      const from = { index, width, isExchange: node.isExchange, isSpread: node.isSpread }
      const gate = this.#ports.gateOf(node.name)
      const meeting = this.#meetings.get(node)
      const outputs = node.outlets.map((outlet) => {
        const next = gate.behind(this.#fanOut(outlet, from))
        return meeting?.behind(next) ?? next
      })
      const operator = this.#ports.make(node, outputs)
      return { node, index: width === 1 ? null : index, operator }
    })
    const built = { instances, counts: newCounts() }
    this.#built.set(node, built)
    return built
  }

  /** The output for several readers of one stream: readers that meet again get their records in order, as if one at a time. */
  #fanOut(outlet: readonly Edge[], from: Feed & { readonly index: number }): Output {
    return toAll(
      branchesOf(outlet).map((branches) => {
        const outputs = branches.map((edge) => this.#inputOf(edge, from))
        if (branches.length === 1) return outputs[0]!
        const meetings = this.#ports.isOneByOne ? null : this.#meetingsHere(branches)
        if (meetings === null) return oneByOne(toAll(outputs))
        return throughBranches(
          outputs,
          meetings.map((node) => this.#meetings.get(node)!),
        )
      }),
    )
  }

  /** Branches that meet in another task send one record at a time, which keeps their order in the channel. */
  #meetingsHere(branches: readonly Edge[]): readonly OperatorNode[] | null {
    const meetings = meetingsOf(branches)
    const { placement } = this.#ports
    const isHere = (node: OperatorNode) => {
      const width = this.#widths.get(node)!
      return Array.from({ length: width }, (_, i) => i).some((i) => placement!.has(node, i))
    }
    return !placement || meetings?.every(isHere) ? meetings : null
  }

  #findMeetings({ sources, operators }: Graph): Map<OperatorNode, Meeting> {
    const meetings = new Map<OperatorNode, Meeting>()
    if (this.#ports.isOneByOne) return meetings
    const outlets = [...sources.map(({ outlet }) => outlet), ...operators.flatMap((node) => node.outlets)]
    for (const branches of outlets.flatMap(branchesOf)) {
      for (const node of (branches.length > 1 && this.#meetingsHere(branches)) || []) {
        meetings.set(node, new Meeting((work) => this.#ports.busy.spend(this.#build(node).counts, work)))
      }
    }
    return meetings
  }

  #inputOf({ to, input }: Edge, from: Feed & { readonly index: number }): Output {
    if (to.kind === 'sink') {
      if (this.#isHere(to, 0)) return this.#ports.sinkInput(to)
      return this.#ports.placement!.outputTo({ to, input: 0, instance: 0, channel: 0, channels: 1 })
    }
    const width = this.#widths.get(to)!
    if (from.isExchange && width > 1) {
      const outputs = Array.from({ length: width }, (_, i) => this.#channel(to, input, i, from.index, from.width))
      return from.isSpread ? spread(outputs) : split(outputs, this.#scale)
    }
    // Many to one, or one to one.
    if (width === 1) return this.#channel(to, input, 0, from.index, from.width)
    return this.#channel(to, input, from.index, 0, 1)
  }

  #channel(node: OperatorNode, input: number, instance: number, channel: number, channels: number): Output {
    if (!this.#isHere(node, instance)) {
      return this.#ports.placement!.outputTo({ to: node, input, instance, channel, channels })
    }
    const { counts } = this.#build(node)
    const known = this.#inputs.get(node) ?? new Map<string, readonly Output[]>()
    this.#inputs.set(node, known)
    const name = `${input}/${instance}`
    let inputs = known.get(name)
    if (!inputs) {
      const { operator } = this.#instanceAt(node, instance)!
      const gated = this.#ports.gateOf(node.name).before(operator.inputs[input]!)
      const whole = this.#ports.busy.counted(this.#meetings.get(node)?.before(operator, input, gated) ?? gated, counts)
      const counted = doOutletsMeet(node) ? oneByOne(whole) : whole
      const batches = Array.from({ length: channels }, () => (batch: Batch) => counted.batch(batch))
      inputs = channels === 1 ? [counted] : mergedInputs(batches, counted)
      known.set(name, inputs)
    }
    return inputs[channel]!
  }
}

/** The number of instances of each operator. Streams are drawn before their readers, so one pass is enough. */
export function widthsOf(graph: Graph, parallelism: number): Map<OperatorNode, number> {
  const feeds = new Map<OperatorNode, Feed[]>()
  const feed = (edges: readonly Edge[], from: Feed) => {
    for (const { to } of edges) if (to.kind === 'operator') feeds.set(to, [...(feeds.get(to) ?? []), from])
  }
  for (const { outlet } of graph.sources) feed(outlet, { width: 1, isExchange: false, isSpread: false })
  const widths = new Map<OperatorNode, number>()
  for (const node of graph.operators) {
    const isBehindKeys = (feeds.get(node) ?? []).every(({ width, isExchange }) => isExchange || width > 1)
    const width = isBehindKeys && !node.isSingle && node.open === null ? parallelism : 1
    widths.set(node, width)
    for (const outlet of node.outlets) feed(outlet, { width, isExchange: node.isExchange, isSpread: node.isSpread })
  }
  return widths
}

/** Sends records to all instances in turns, and watermarks to each. */
function spread(outputs: readonly Output[]): Output {
  let next = 0
  return {
    batch(batch) {
      for (let from = 0; from < batch.values.length; from += spreadMax) {
        outputs[next]!.batch(slice(batch, from, Math.min(from + spreadMax, batch.values.length)))
        next = (next + 1) % outputs.length
      }
    },
    watermark(time) {
      for (const output of outputs) output.watermark(time)
    },
    idle() {
      for (const output of outputs) output.idle()
    },
  }
}

/** Sends each record to the instance that owns the group of its key, and watermarks to all. */
function split(outputs: readonly Output[], { keyGroups }: Scale): Output {
  const count = outputs.length
  return {
    batch({ values, times, keys, order }) {
      const parts = outputs.map(() => ({
        ...{ values: [] as unknown[], times: [] as number[], keys: [] as PipelineKey[] },
        order: [] as number[],
      }))
      for (let i = 0; i < values.length; i++) {
        const key = keys![i]!
        const part = parts[ownerOf(groupOf(key, keyGroups), count, keyGroups)]!
        part.values.push(values[i])
        part.keys.push(key)
        if (times) part.times.push(times[i]!)
        if (order) part.order.push(order[i]!)
      }
      for (let i = 0; i < count; i++) {
        const { order: own, ...part } = parts[i]!
        if (part.values.length === 0) continue
        outputs[i]!.batch({ ...part, times: times ? part.times : null, ...(order && { order: own }) })
      }
    },
    watermark(time) {
      for (const output of outputs) output.watermark(time)
    },
    idle() {
      for (const output of outputs) output.idle()
    },
  }
}
