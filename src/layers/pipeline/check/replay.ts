// One replay of recorded input from the state of a checkpoint: every record alone, through all operators, into no sink. The
// replay notes the output of each operator per record. A replay may restart in the middle: its state then passes through the
// codec into a newly drawn graph, as after a crash.

import type { Codec } from '../../../core/codec/codec.ts'
import type { Clock, Random } from '../../../core/store/ports.ts'
import type { Batch, Output } from '../batch.ts'
import type { Graph, OperatorNode, SourceNode } from '../graph.ts'
import { type Operator, type OperatorContext, type OperatorResource, stateless } from '../operator.ts'
import { packBlock, unpackBlock } from '../rules/state-block.ts'
import type { StateTable } from '../rules/state-table.ts'
import type { NamedTable } from '../run/named-table.ts'
import { RunningSource } from '../run/running-source.ts'
import { WatermarkGate } from '../run/watermark-gate.ts'
import { type Scale, Wiring } from '../run/wiring.ts'
import type { SourceBatch, SourceReader } from '../source.ts'
import type { Outside } from './outside.ts'
import type { Recording } from './recording.ts'

/** One output of an operator: a result, a dead letter, a late record, or the error that ended the replay. */
export interface Given {
  readonly operator: string
  /** The output encoded by the codec, for comparison. */
  readonly text: string
}

/** One list of outputs per record, and one more for the end of the input. */
export type Trace = readonly (readonly Given[])[]

export interface ReplayOf {
  readonly pipeline: string
  draw(): Graph
  readonly scale: Scale
  readonly codec: Codec
  readonly random: Random
  readonly recording: Recording
  /** Substituted sources, with the decoder of each. */
  readonly replaced: ReadonlyMap<string, SourceNode['decode']>
  /** Substitutes for calls to the outside; operators after other calls are not reached. */
  readonly calls: Readonly<Record<string, (value: never) => unknown>>
  /** Resources of operators, the same in every replay. */
  readonly resources: ReadonlyMap<string, OperatorResource>
  /** Fills the tables with the state of the checkpoint. */
  fill(tables: readonly NamedTable[]): Promise<void>
}

/** Clock timers fire at the end; until then the clock does not advance. */
const lastTickMs = 3_600_000

/** `restartAt`: the index of the record before which the replay restarts; null: no restart. */
export async function replay(of: ReplayOf, outside: Outside, restartAt: number | null): Promise<Trace> {
  const replaying = new Replay(of, outside)
  await replaying.begin()
  return replaying.run(restartAt)
}

class Replay {
  readonly #of: ReplayOf
  readonly #outside: Outside
  readonly #trace: Given[][] = []
  #now: number
  #hasFailed = false
  #stage: Stage
  readonly #sources = new Map<string, ScriptedSource>()

  constructor(of: ReplayOf, outside: Outside) {
    this.#of = of
    this.#outside = outside
    this.#now = of.recording.at
    this.#stage = this.#draw()
  }

  async begin(): Promise<void> {
    await this.#of.fill(this.#stage.tables())
    this.#trace.push([])
    this.#outside.watch(() => this.#stage.restored())
    this.#trace.length = 0
    for (const node of this.#stage.graph.sources) {
      const partitions = this.#of.recording.partitions.get(node.name) ?? ['']
      this.#sources.set(node.name, new ScriptedSource(this.#nodeOf(node), partitions, this.#contextOf(node.name)))
    }
    this.#connect()
  }

  run(restartAt: number | null): Trace {
    const { inputs, at } = this.#of.recording
    for (const [i, { source, partition, value }] of inputs.entries()) {
      if (i === restartAt) this.#restart()
      this.#step(at, () => this.#sources.get(source)!.hand(partition, copyOf(value)))
      if (this.#hasFailed) return this.#trace
    }
    this.#step(at + lastTickMs, () => {
      for (const source of this.#sources.values()) source.end()
    })
    return this.#trace
  }

  #step(at: number, work: () => void): void {
    this.#trace.push([])
    this.#outside.watch(() => {
      const hasMoved = at > this.#now
      this.#now = at
      if (hasMoved) this.#stage.tick(at)
      work()
    })
  }

  #restart(): void {
    const before = this.#stage
    this.#stage = this.#draw()
    this.#stage.take(before, this.#of.codec)
    this.#outside.watch(() => this.#stage.restored())
    this.#connect()
    // Sources resume from their positions, so operators get the current watermark again.
    this.#outside.watch(() => {
      for (const source of this.#sources.values()) source.reportWatermark()
    })
  }

  #connect(): void {
    for (const node of this.#stage.graph.sources) {
      const next = this.#stage.wiring.outputOf(node.outlet)
      this.#sources.get(node.name)!.next = this.#noting(node.name, next)
    }
  }

  #draw(): Stage {
    const graph = this.#of.draw()
    const nowhere: Output = { batch() {}, watermark() {}, idle() {} }
    const wiring = new Wiring(graph, this.#of.scale, {
      make: (node, outputs) => this.#make(node, outputs),
      // No record is retried.
      gateOf: () => new WatermarkGate(() => false),
      sinkInput: () => nowhere,
      busy: { counted: (input) => input, spend: (_, work) => work() },
      isOneByOne: true,
    })
    return new Stage(graph, wiring)
  }

  #nodeOf(node: SourceNode): SourceNode {
    const decode = this.#of.replaced.get(node.name)
    return decode === undefined ? node : { ...node, decode }
  }

  #make(node: OperatorNode, outputs: readonly Output[]): Operator {
    const { name } = node
    const noted = outputs.map((output) => this.#noting(name, output))
    const made =
      node.state === 'calls' ? callStandIn(this.#of.calls[name], noted[0]!) : node.make(noted, this.#contextOf(name))
    const { inputs, tick, restored } = made
    const by = <R>(work: () => R) => this.#outside.by(name, work)
    return {
      ...made,
      inputs: inputs.map((input) => ({
        batch: (batch) => by(() => input.batch(batch)),
        watermark: (time) => by(() => this.#orFail(name, () => input.watermark(time))),
        idle: () => by(() => input.idle()),
      })),
      ...(tick && { tick: (now) => by(() => this.#orFail(name, () => tick.call(made, now))) }),
      ...(restored && { restored: () => by(() => restored.call(made)) }),
    }
  }

  /** A timer function that throws ends a run, so it ends the replay too. */
  #orFail(operator: string, work: () => void): void {
    try {
      work()
    } catch (error) {
      this.#fail(operator, error)
    }
  }

  #fail(operator: string, error: unknown): void {
    if (!this.#hasFailed) this.#note(operator, ['fails', String(error)])
    this.#hasFailed = true
  }

  #noting(operator: string, output: Output): Output {
    return {
      batch: (batch) => {
        this.#noteAll(operator, batch)
        output.batch(batch)
      },
      watermark: (time) => output.watermark(time),
      idle: () => output.idle(),
    }
  }

  #noteAll(operator: string, { values, keys, times }: Batch): void {
    for (let i = 0; i < values.length; i++) {
      this.#note(operator, [values[i], keys?.[i] ?? null, times?.[i] ?? null])
    }
  }

  #note(operator: string, what: readonly unknown[]): void {
    this.#trace.at(-1)!.push({ operator, text: textOf(this.#of.codec, what) })
  }

  #contextOf(name: string): OperatorContext {
    const { pipeline, random } = this.#of
    return {
      ...{ name, pipeline, random, clock: clockAt(() => this.#now), resource: this.#of.resources.get(name) ?? null },
      poison: ({ value, key }, error) => this.#note(name, [{ error: String(error), of: value }, key, null]),
      late: (count) => this.#note(name, [{ late: count }]),
      wait() {},
      wake() {},
      fail: (error) => this.#fail(name, error),
    }
  }
}

/** A graph with its operator instances and their state. */
class Stage {
  readonly graph: Graph
  readonly wiring: Wiring

  constructor(graph: Graph, wiring: Wiring) {
    this.graph = graph
    this.wiring = wiring
  }

  tables(): NamedTable[] {
    return this.wiring.tables()
  }

  restored(): void {
    this.wiring.restored()
  }

  tick(now: number): void {
    this.wiring.tick(now)
  }

  /** Copies all state of another stage through the codec, as a restore from a checkpoint would. */
  take(other: Stage, codec: Codec): void {
    const own = this.tables()
    for (const [i, { table }] of other.tables().entries()) moveState(table, own[i]!.table, codec)
  }
}

const cellsPerBlock = 4096

function moveState(from: StateTable<unknown>, to: StateTable<unknown>, codec: Codec): void {
  const capture = from.capture(true)
  for (let block = capture.next(cellsPerBlock); block; block = capture.next(cellsPerBlock)) {
    to.load(unpackBlock(codec.decode(codec.encode(packBlock(block)))))
  }
  capture.publish()
}

/** A source that receives its records one by one from the replay. */
class ScriptedSource {
  next: Output = { batch() {}, watermark() {}, idle() {} }
  readonly #running: RunningSource
  readonly #reader: ScriptedReader

  constructor(node: SourceNode, partitions: readonly string[], context: OperatorContext) {
    this.#reader = new ScriptedReader(partitions)
    const door: Output = {
      batch: (batch) => this.next.batch(batch),
      watermark: (time) => this.next.watermark(time),
      idle: () => this.next.idle(),
    }
    // With one record at a time, no watermark falls between records of a batch.
    this.#running = new RunningSource(node, this.#reader, { next: door, again: door, timed: [] }, context, null)
  }

  hand(partition: string, value: unknown): void {
    this.#reader.ready = { partition, values: [value], position: null }
    this.#running.step(1)
  }

  end(): void {
    this.#running.end()
  }

  reportWatermark(): void {
    if (this.#running.watermark > Number.NEGATIVE_INFINITY) this.next.watermark(this.#running.watermark)
  }
}

class ScriptedReader implements SourceReader<unknown> {
  ready: SourceBatch<unknown> | null = null
  readonly #partitions: readonly string[]

  constructor(partitions: readonly string[]) {
    this.#partitions = partitions
  }

  read(): SourceBatch<unknown> | null {
    return this.ready
  }

  partitions(): readonly string[] {
    return this.#partitions
  }

  async close(): Promise<void> {}
}

/** Replaces a call with a substitute function, or drops the record. */
function callStandIn(answer: ((value: never) => unknown) | undefined, next: Output): Operator {
  return stateless({
    batch(batch) {
      if (answer) next.batch({ ...batch, values: batch.values.map((value) => answer(value as never)) })
    },
    watermark: (time) => next.watermark(time),
    idle: () => next.idle(),
  })
}

function clockAt(now: () => number): Clock {
  return { now, elapsed: now, after: () => () => undefined, soon() {}, next() {} }
}

function copyOf(value: unknown): unknown {
  try {
    return structuredClone(value)
  } catch {
    // The value contains functions and cannot be copied, so in-place changes are not caught.
    return value
  }
}

function textOf(codec: Codec, what: readonly unknown[]): string {
  try {
    return Buffer.from(codec.encode(what)).toString('latin1')
  } catch {
    return `?${what.map(String).join(' ')}`
  }
}

/** Formats an output for people: the value, with the key and time of its record. */
export function showGiven(codec: Codec, text: string): string {
  if (text.startsWith('?')) return text.slice(1)
  const [value, key, time] = codec.decode(Buffer.from(text, 'latin1')) as readonly unknown[]
  const parts = [show(value)]
  if (key !== null && key !== undefined) parts.push(`of key ${show(key)}`)
  if (time !== null && time !== undefined) parts.push(`at ${String(time)}`)
  return parts.join(' ')
}

export function show(value: unknown): string {
  try {
    const text = JSON.stringify(value, (_, each: unknown) => (each instanceof Map ? [...each] : each)) ?? String(value)
    return text.length > 200 ? `${text.slice(0, 200)}…` : text
  } catch {
    return String(value)
  }
}
