// The stages of a pipeline on several threads, as the flow in the main thread uses them: starts the threads, sends restored state
// to its tasks, runs the tasks of the main thread, and gathers the captures of a checkpoint from all tasks.

import { assert } from '../../../core/assert.ts'
import type { Codec } from '../../../core/codec/codec.ts'
import type { Clock } from '../../../core/store/ports.ts'
import type { Graph } from '../graph.ts'
import type { PoisonRecord } from '../operator.ts'
import { StateTable } from '../rules/state-table.ts'
import { nextBlock } from '../run/checkpoint-writer.ts'
import type { CapturedTable, NamedTable } from '../run/named-table.ts'
import type { Scale, WiringPorts } from '../run/wiring.ts'
import { type ChannelMessage, TaskOutputs } from './channel.ts'
import { TableInThread } from './distant-capture.ts'
import type { CaptureName, FromThread, PartCounts, TaskCounts } from './messages.ts'
import { mainThread, nodesOf, outlineOf, type StagePlan } from './plan.ts'
import { StageTask } from './stage-task.ts'
import { TaskLoop } from './task-loop.ts'
import { WorkerThreads } from './worker-threads.ts'

export interface StagesOf {
  readonly name: string
  readonly timeline: string
  readonly module: string
  readonly graph: Graph
  readonly plan: StagePlan
  readonly scale: Scale
  readonly codec: Codec
  readonly clock: Clock
  readonly lastCheckpoint: number
}

/** The parts of the flow that the tasks of the main thread use. */
export interface MainParts {
  ports(outputs: TaskOutputs): WiringPorts
  letter(operator: string, record: PoisonRecord, error: string, at: number): void
  /** Runs in the turn in which a task of the main thread is captured, or when the capture of another task arrives. */
  captured(task: number, checkpoint: number, captures: readonly CapturedTable[]): void
  fail(error: unknown): void
}

export class Stages {
  readonly plan: StagePlan
  /** The outgoing channels of the task that reads the sources. */
  readonly outputs: TaskOutputs
  readonly #of: StagesOf
  #threads: WorkerThreads | null = null
  #main: MainParts | null = null
  readonly #tasks = new Map<number, StageTask>()
  #loop: TaskLoop | null = null
  /** Restored state on its way to the threads. */
  #staging: readonly NamedTable[] = []
  readonly #captures = new Map<string, TableInThread>()
  readonly #figures = new Map<number, Extract<FromThread, { readonly kind: 'figures' }>>()
  #hasFailed = false

  /** Starts the threads. */
  static async open(of: StagesOf): Promise<Stages> {
    const stages = new Stages(of)
    const { module, name: pipeline, timeline, scale, lastCheckpoint, graph, plan } = of
    const settings = { module, pipeline, timeline, scale, lastCheckpoint, threads: plan.threads }
    stages.#threads = await WorkerThreads.start(
      { ...settings, outline: outlineOf(graph, scale) },
      { onMessage: (thread, message) => stages.#take(thread, message), onFailed: (error) => stages.#fail(error) },
    )
    return stages
  }

  private constructor(of: StagesOf) {
    this.#of = of
    this.plan = of.plan
    this.outputs = new TaskOutputs({
      ...{ plan: of.plan, task: 0, codec: of.codec, clock: of.clock, send: (message) => this.#send(message) },
      nodes: new Map(nodesOf(of.graph).map((node, i) => [node, i])),
    })
  }

  /** Builds the tasks of the main thread, except for the one that reads the sources. */
  connect(main: MainParts): void {
    const { plan, graph, scale, codec, clock, lastCheckpoint } = this.#of
    this.#main = main
    for (const { task, thread } of plan.tasks) {
      if (thread !== mainThread || task === 0) continue
      const made = new StageTask({
        ...{ plan, task, graph, scale, codec, clock, lastCheckpoint },
        ports: main.ports,
        letter: main.letter,
        send: (message) => this.#send(message),
        captured: (from, { checkpoint }, captures) => main.captured(from.plan.task, checkpoint, captures),
      })
      this.#tasks.set(task, made)
    }
    this.#loop = new TaskLoop(clock, [...this.#tasks.values()], () => undefined)
  }

  /** Tables to be filled from a checkpoint: those of threads are sent by `start`. */
  tables(): readonly NamedTable[] {
    if (this.#staging.length === 0) this.#staging = this.#tablesOfThreads()
    return [...[...this.#tasks.values()].flatMap((task) => task.tables()), ...this.#staging]
  }

  /** Sends restored state to the threads, and runs the tasks. */
  async start(): Promise<void> {
    const { codec, plan, clock } = this.#of
    for (const { table, ...to } of this.#staging) {
      const thread = this.#threadOf(to.operator, to.index ?? 0)
      const capture = table.capture(true)
      for (let block = nextBlock(capture, codec); block; block = nextBlock(capture, codec)) {
        this.#threads!.post(thread, { kind: 'load', to, block: block.bytes })
        await new Promise<void>((resolve) => clock.soon(resolve))
      }
    }
    this.#staging = []
    for (const task of this.#tasks.values()) task.wiring.restored()
    for (let thread = 1; thread <= plan.threads; thread++) this.#threads!.post(thread, { kind: 'start' })
    this.#loop!.run().catch((error) => this.#fail(error))
  }

  /** A part that belongs to the stage of a task, to name what sources wait for. */
  partOf(task: number): string {
    const { stage } = this.plan.tasks[task]!
    return this.plan.stages.find((each) => each.stage === stage)?.parts[0] ?? `stage ${stage}`
  }

  /** Abandons a checkpoint in every task. */
  abort(checkpoint: number): void {
    for (const task of this.#tasks.values()) task.abort(checkpoint)
    for (let thread = 1; thread <= this.plan.threads; thread++) {
      this.#threads?.post(thread, { kind: 'abort', checkpoint })
    }
    this.#loop?.wake()
  }

  wake(): void {
    this.#loop?.wake()
  }

  /** The counts of each part, summed over its instances in all tasks but the first. */
  counts(): ReadonlyMap<string, PartCounts> {
    const counts = new Map<string, PartCounts>()
    for (const part of this.tasks().flatMap(({ parts }) => parts)) {
      const before = counts.get(part.name)
      counts.set(part.name, before ? sumOf(before, part) : part)
    }
    return counts
  }

  /** The counts of each task but the first. */
  tasks(): TaskCounts[] {
    const elsewhere = [...this.#figures.values()].flatMap(({ tasks }) => tasks)
    return [...elsewhere, ...[...this.#tasks.values()].map((task) => task.counts())]
  }

  get lateRecords(): number {
    let sum = 0
    for (const { lateRecords } of this.#figures.values()) sum += lateRecords
    return sum
  }

  async close(): Promise<void> {
    this.#loop?.stop()
    for (const capture of this.#captures.values()) capture.abandon()
    await this.#threads?.close()
  }

  #send(message: ChannelMessage): void {
    const { from, to } = message
    const receiver = 'credit' in message ? from : to
    const thread = this.plan.tasks[receiver]!.thread
    const transfer = 'frame' in message ? [message.frame.buffer as ArrayBuffer] : []
    if (thread === mainThread) this.#receive(receiver, message)
    else this.#threads!.post(thread, { kind: 'channel', message }, transfer)
  }

  #receive(task: number, message: ChannelMessage): void {
    if (task === 0) {
      assert('credit' in message, 'the task that reads the sources has no channel')
      this.outputs.credit(message.to)
      return
    }
    this.#tasks.get(task)!.receive(message)
    this.#loop!.wake()
  }

  #take(thread: number, message: Exclude<FromThread, { readonly kind: 'ready' | 'failed' }>): void {
    switch (message.kind) {
      case 'channel': {
        const { from, to } = message.message
        this.#receive('credit' in message.message ? from : to, message.message)
        break
      }
      case 'captured':
        this.#captured(thread, message)
        break
      case 'block':
        this.#captures.get(keyOf(message.of))?.arrived(message.block)
        break
      case 'figures':
        this.#figures.set(thread, message)
    }
  }

  #captured(thread: number, { task, checkpoint, tables }: Extract<FromThread, { readonly kind: 'captured' }>): void {
    // Without a record that failed, its state is not what the positions promise.
    if (this.#hasFailed) return
    const captures = tables.map((each, table): CapturedTable => {
      const of: CaptureName = { task, checkpoint, table }
      const capture = new TableInThread(each, {
        pull: () => this.#threads!.post(thread, { kind: 'pull', of }),
        settle: (isPublished) => {
          this.#captures.delete(keyOf(of))
          this.#threads!.post(thread, { kind: 'settle', of, isPublished })
        },
      })
      this.#captures.set(keyOf(of), capture)
      return { operator: each.operator, name: each.name, index: each.index, capture }
    })
    this.#main!.captured(task, checkpoint, captures)
  }

  #fail(error: unknown): void {
    this.#hasFailed = true
    for (const capture of this.#captures.values()) capture.fail(error)
    this.#main?.fail(error)
  }

  #threadOf(operator: string, instance: number): number {
    const node = this.#of.graph.operators.find(({ name }) => name === operator)!
    return this.plan.tasks[this.plan.taskOf(node, instance)]!.thread
  }

  /** Empty tables like those of the operators in threads, to receive what a checkpoint has. */
  #tablesOfThreads(): NamedTable[] {
    const { graph, scale } = this.#of
    return graph.operators.flatMap((node) => {
      if (this.#threadOf(node.name, 0) === mainThread) return []
      const { tables } = this.#main!.ports(this.outputs).make(
        node,
        node.outlets.map(() => nowhere),
      )
      return Array.from({ length: scale.parallelism }, (_, index) =>
        [...tables.keys()].map((name) => ({ operator: node.name, name, index, table: new StateTable<unknown>() })),
      ).flat()
    })
  }
}

const nowhere = { batch() {}, watermark() {}, idle() {} }

function keyOf({ task, checkpoint, table }: CaptureName): string {
  return `${task}/${checkpoint}/${table}`
}

function sumOf(a: PartCounts, b: PartCounts): PartCounts {
  const watermarks = [a.watermark, b.watermark].flatMap((each) => each ?? [])
  return {
    name: a.name,
    records: a.records + b.records,
    busyMs: a.busyMs + b.busyMs,
    keys: a.keys + b.keys,
    inFlight: a.inFlight + b.inFlight,
    watermark: watermarks.length > 0 ? Math.min(...watermarks) : null,
  }
}
