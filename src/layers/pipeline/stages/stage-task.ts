// One stage in one thread, as a task: it takes frames from its channels one by one, passes their records through its operators,
// and captures their state when the barrier of a checkpoint has arrived on every channel. A channel whose barrier has arrived
// waits for the others (rules/alignment.ts).

import { assert } from '../../../core/assert.ts'
import type { Codec } from '../../../core/codec/codec.ts'
import type { Clock } from '../../../core/store/ports.ts'
import type { Output } from '../batch.ts'
import type { Graph, OperatorNode, SinkNode } from '../graph.ts'
import { batchOf, type PoisonRecord } from '../operator.ts'
import { Alignment } from '../rules/alignment.ts'
import { watermarkOf } from '../run/computing-time.ts'
import { type CapturedTable, isDueInFull, type NamedTable, partName } from '../run/named-table.ts'
import { type Scale, Wiring, type WiringPorts } from '../run/wiring.ts'
import { type Barrier, type ChannelMessage, type Entry, entriesIn, TaskOutputs } from './channel.ts'
import { ColumnReader } from './columns.ts'
import type { PartCounts, TaskCounts } from './messages.ts'
import { nodesOf, type StagePlan, type StageTaskPlan } from './plan.ts'
import { Stopwatch } from './stopwatch.ts'

export interface StageTaskOf {
  readonly plan: StagePlan
  readonly task: number
  readonly graph: Graph
  readonly scale: Scale
  readonly codec: Pick<Codec, 'encode' | 'decode'>
  readonly clock: Pick<Clock, 'elapsed'>
  /** The newest checkpoint of the pipeline: later ones have higher numbers. */
  readonly lastCheckpoint: number
  /** Makes the ports of its wiring, given its outgoing channels. */
  ports(outputs: TaskOutputs): WiringPorts
  send(message: ChannelMessage): void
  letter(operator: string, record: PoisonRecord, error: string, at: number): void
  /** Runs in the turn of the capture. */
  captured(task: StageTask, barrier: Barrier, captures: readonly CapturedTable[]): void
}

export class StageTask {
  readonly plan: StageTaskPlan
  readonly outputs: TaskOutputs
  readonly wiring: Wiring
  readonly #of: StageTaskOf
  readonly #nodes: readonly (OperatorNode | SinkNode)[]
  readonly #queues: ChannelMessage[][]
  readonly #alignment: Alignment
  readonly #inputs = new Map<string, Output>()
  /** The barrier whose channels are being aligned. */
  #barrier: Barrier | null = null
  /** The channel to read next: no channel is preferred. */
  #next = 0
  readonly #reader = new ColumnReader()
  #records = 0
  #busyMs = 0
  readonly #aligning: Stopwatch

  constructor(of: StageTaskOf) {
    const { plan, task, graph, scale, codec, send } = of
    this.#of = of
    this.plan = plan.tasks[task]!
    this.#nodes = nodesOf(graph)
    const nodes = new Map(this.#nodes.map((node, i) => [node, i]))
    this.outputs = new TaskOutputs({ plan, task, nodes, codec, send, clock: of.clock })
    this.#aligning = new Stopwatch(of.clock)
    this.wiring = new Wiring(graph, scale, { ...of.ports(this.outputs), placement: this.outputs })
    this.#queues = this.plan.from.map(() => [])
    this.#alignment = new Alignment(Math.max(1, this.plan.from.length), of.lastCheckpoint)
  }

  counts(): TaskCounts {
    const waitingChannels = this.plan.from.filter((_, channel) => this.#alignment.isWaiting(channel)).length
    return {
      ...{ task: this.plan.task, records: this.#records, busyMs: this.#busyMs, waitingChannels },
      ...{ blockedMs: this.outputs.blockedMs, alignedMs: this.#aligning.ms, parts: partsOf(this.wiring) },
    }
  }

  tables(): NamedTable[] {
    return this.wiring.tables()
  }

  receive(message: ChannelMessage): void {
    if ('credit' in message) {
      this.outputs.credit(message.to)
      return
    }
    const channel = this.plan.from.indexOf(message.from)
    assert(channel >= 0, 'a message arrives on a channel of the plan')
    this.#queues[channel]!.push(message)
  }

  /** Processes one message. False: no channel has one, or the task must wait for later tasks. */
  step(): boolean {
    if (this.outputs.isFull) return false
    const count = this.#queues.length
    for (let i = 0; i < count; i++) {
      const channel = (this.#next + i) % count
      if (this.#queues[channel]!.length === 0 || this.#alignment.isWaiting(channel)) continue
      this.#next = (channel + 1) % count
      const startedMs = this.#of.clock.elapsed()
      this.#take(channel, this.#queues[channel]!.shift()!)
      this.#busyMs += this.#of.clock.elapsed() - startedMs
      return true
    }
    return false
  }

  tick(now: number): void {
    this.wiring.tick(now)
  }

  /** Abandons a checkpoint: channels that wait for its barriers continue. */
  abort(checkpoint: number): void {
    this.#alignment.abort(checkpoint)
    if (this.#barrier?.checkpoint === checkpoint) this.#barrier = null
    if (this.#alignment.pending === null) this.#aligning.end()
  }

  #take(channel: number, message: ChannelMessage): void {
    if ('barrier' in message) {
      this.#align(channel, message.barrier)
      return
    }
    const entries =
      'frame' in message
        ? entriesIn(this.#of.codec.decode(message.frame), this.#reader)
        : (message as { readonly entries: readonly Entry[] }).entries
    for (const entry of entries) this.#process(entry)
    this.#of.send({ from: message.from, to: message.to, credit: true })
  }

  #align(channel: number, barrier: Barrier): void {
    const { capture } = this.#alignment.barrier(channel, barrier.checkpoint)
    if (this.#alignment.pending === barrier.checkpoint) this.#barrier = barrier
    if (capture === null) {
      if (this.#barrier) this.#aligning.begin()
      return
    }
    this.#aligning.end()
    this.#barrier = null
    this.outputs.barrier(barrier)
    const captures = this.tables().map(({ table, ...name }) => {
      const isFull = isDueInFull(barrier.stored[partName(name)], table)
      return { ...name, capture: table.capture(isFull) }
    })
    this.#of.captured(this, barrier, captures)
  }

  #process(entry: Entry): void {
    switch (entry[0]) {
      case 'batch': {
        const [, place, values, times, keys] = entry
        this.#records += values.length
        this.#inputAt(place).batch({ values, times, keys })
        break
      }
      case 'watermark':
        this.#inputAt(entry[1]).watermark(entry[2])
        break
      case 'idle':
        this.#inputAt(entry[1]).idle()
        break
      case 'letter':
        this.#of.letter(entry[1], entry[2], entry[3], entry[4])
        break
      case 'again': {
        const [node, input, instance] = entry[1]
        const to = this.wiring.inputAgain(this.#nodes[node] as OperatorNode, instance, input)
        assert(to !== null, 'a record is sent back to the task of its instance')
        to.batch(batchOf(entry[2]))
      }
    }
  }

  #inputAt(place: Extract<Entry, readonly ['idle', ...unknown[]]>[1]): Output {
    const name = place.join('/')
    let found = this.#inputs.get(name)
    if (!found) {
      const [node, input, instance, channel, channels] = place
      found = this.wiring.inputAt({ to: this.#nodes[node]!, input, instance, channel, channels })
      this.#inputs.set(name, found)
    }
    return found
  }
}

/** The counts of the parts that a task has. */
function partsOf(wiring: Wiring): PartCounts[] {
  return [...wiring.nodes()].flatMap(([{ name }, { instances, counts }]) => {
    if (instances.length === 0) return []
    let [keys, inFlight] = [0, 0]
    for (const { operator } of instances) {
      inFlight += operator.inFlight?.() ?? 0
      for (const table of operator.tables.values()) keys += table.size
    }
    const { records, busyMs } = counts
    return [{ name, records, busyMs, keys, inFlight, watermark: watermarkOf(counts) }]
  })
}
