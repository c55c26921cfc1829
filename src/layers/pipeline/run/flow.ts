// The flow: a graph turned into functions that call each other, and the loop that reads the sources. A batch passes through all
// instances of this process without waiting, so a barrier is a moment between two batches: positions, state and sinks are cut
// there together.
//
// The loop yields to the event loop every few milliseconds, so that a checkpoint is written while records flow. While a sink
// or a call cannot take more records, sources are not read, so no queue grows without a bound.

import { RepriseError } from '../../../core/errors.ts'
import { isRetryLater } from '../../../core/retry/retry.ts'
import type { Clock, Random } from '../../../core/store/ports.ts'
import type { RunTrace } from '../../../engine/base/tracing.ts'
import type { FlowMoment } from '../../../engine/model/flow-metrics.ts'
import { Alarm, Latch } from '../../../lib/waiting.ts'
import type { Output } from '../batch.ts'
import type { Graph, OperatorNode, SinkNode } from '../graph.ts'
import { batchOf, type OperatorContext, type OperatorResource, type PoisonRecord } from '../operator.ts'
import type { StateTable } from '../rules/state-table.ts'
import type { CutId, SinkWriter } from '../sink.ts'
import type { SourceReader } from '../source.ts'
import type { TaskOutputs } from '../stages/channel.ts'
import type { TaskCounts } from '../stages/messages.ts'
import type { StageView } from '../stages/plan.ts'
import type { Stages } from '../stages/stages.ts'
import { Waits } from './backpressure.ts'
import { Busy, type Counts, newCounts } from './computing-time.ts'
import { Figures, operatorFigures, type PartFigures, type Sample, sinkFigures, sourceFigures } from './flow-rates.ts'
import { isFaultyCode, Letters, lettersStay, noRetryLater, noTaker, type SetAside, textOf } from './letters.ts'
import { type CapturedTable, isDueInFull, type NamedTable, partName } from './named-table.ts'
import { type Neighbours, Pace } from './pace.ts'
import { type Origins, sentBack, watched, withOrigin } from './record-origins.ts'
import { RunningSource } from './running-source.ts'
import { type FlowCut, StagedCut } from './staged-cut.ts'
import { WatermarkGate } from './watermark-gate.ts'
import { type Scale, Wiring, type WiringPorts } from './wiring.ts'

/** The operator name under which dead letters are stored. User names contain no $. */
export const lettersOperator = '$letters'

/** The part that sources wait for when sinks hold too many records. Operator names contain no $. */
const checkpointsName = '$checkpoints'

/** When this many records wait for a retry, sources are not read. */
const [waitingMax, tickMs] = [512, 100]

export interface FlowHooks {
  readonly pipeline: string
  readonly clock: Clock
  readonly random: Random
  readonly lettersMax: number
  readonly scale: Scale
  /** The outside resources of operators, by operator name. */
  readonly resources: ReadonlyMap<string, OperatorResource>
  /** Null: tracing is off. */
  readonly trace: RunTrace | null
  readonly neighbours: Neighbours
  readonly origins: Origins | null
  /** The stages in other threads; null: all operators are here. */
  readonly stages: Stages | null
  /** Runs after a round with the number of records read, and with 0 at each tick. It may call `wait` to hold sources back. */
  onRecords(count: number): void
}

export interface OperatorStatus {
  readonly name: string
  readonly records: number
  readonly inFlight: number
  readonly keys: number
  /** Computing time, without nested calls. */
  readonly busyMs: number
  /** The time that sources waited because this part could not take more records. */
  readonly blockedMs: number
}

export class Flow {
  readonly #hooks: FlowHooks
  readonly #graph: Graph
  readonly #wiring: Wiring
  readonly #sinkInputs = new Map<SinkNode, { readonly input: Output; readonly counts: Counts }>()
  readonly #busy: Busy
  readonly #pace: Pace
  readonly #figures: Figures
  readonly #writers: ReadonlyMap<string, SinkWriter>
  readonly letters: Letters
  readonly #gates = new Map<string, WatermarkGate>()
  #sources: readonly RunningSource[] = []
  readonly #sourceCounts = new Map<string, Counts>()
  readonly #waits: Waits
  #lateRecords = 0
  #isHalted = false
  #isOver = false
  #failure: { readonly error: unknown } | null = null
  /** Set to the error if the flow fails. */
  readonly failed = new Latch<unknown>()
  readonly #alarm: Alarm
  /** The barrier that is on its way through the stages. */
  #cutting: StagedCut | null = null
  /** A task of a stage was captured for this checkpoint. */
  onCaptured: (task: string, checkpoint: number) => void = () => undefined
  #tickedAt = Number.NEGATIVE_INFINITY

  constructor(graph: Graph, writers: ReadonlyMap<string, SinkWriter>, hooks: FlowHooks) {
    this.#graph = graph
    this.#writers = writers
    this.#hooks = hooks
    this.letters = new Letters(hooks.lettersMax)
    this.#waits = new Waits(() => hooks.clock.elapsed())
    this.#alarm = new Alarm(hooks.clock, { isAwaited: true })
    this.#pace = new Pace(hooks.clock, hooks.neighbours)
    this.#busy = new Busy(() => hooks.clock.elapsed())
    const { stages } = hooks
    this.#figures = new Figures(graph, stages?.plan ?? null, () => this.#sample())
    this.#wiring = new Wiring(graph, hooks.scale, this.#portsOf(stages?.outputs ?? null))
    for (const node of stages ? graph.sinks : []) this.#sinkInput(node)
    stages?.connect({
      ports: (outputs) => this.#portsOf(outputs),
      letter: (...letter) => this.#addLetter(...letter),
      captured: (task, checkpoint, captures) => this.#captured(task, checkpoint, captures),
      fail: (error) => this.fail(error),
    })
  }

  /** `outputs`: the channels of the task to which the operators belong; null: all operators are here. */
  #portsOf(outputs: TaskOutputs | null): WiringPorts {
    const { origins } = this.#hooks
    return {
      make: (node, to) => node.make(origins?.through(node, to) ?? to, this.#contextOf(node.name, outputs)),
      gateOf: (name) => this.#gateOf(name),
      sinkInput: (node) => this.#sinkInput(node),
      ...{ busy: this.#busy, isOneByOne: origins !== null, placement: outputs },
    }
  }

  /** All state that a checkpoint contains. */
  tables(): NamedTable[] {
    return [this.#letterTable(), ...this.#wiring.tables(), ...(this.#hooks.stages?.tables() ?? [])]
  }

  #letterTable(): NamedTable {
    const table = this.letters.table as StateTable<unknown>
    return { operator: lettersOperator, name: 'letters', index: null, table }
  }

  /** Call it after the tables were filled from a checkpoint. */
  restored(): void {
    this.letters.restored()
    this.#wiring.restored()
  }

  start(
    readers: ReadonlyMap<string, SourceReader<unknown>>,
    from: ReadonlyMap<string, ReadonlyMap<string, unknown>>,
  ): void {
    this.#sources = this.#graph.sources.map((node) => {
      const { name, outlet } = node
      this.#sourceCounts.set(name, newCounts())
      const again = this.#wiring.outputOf(outlet)
      const next = watched(this.#hooks.origins, name, again)
      const behind = { next, again, timed: this.#wiring.timedBehind(outlet) }
      const context = this.#contextOf(name, this.#hooks.stages?.outputs ?? null)
      return new RunningSource(node, readers.get(name)!, behind, context, from.get(name) ?? null)
    })
  }

  /** Runs until every source has ended and nothing is in progress, or the flow is halted. True: it reached its end. */
  async run(): Promise<boolean> {
    const { clock } = this.#hooks
    this.#pace.begin()
    while (!this.#isHalted) {
      if (this.#failure) throw this.#failure.error
      this.#tick()
      const isTriedAgain = this.#tryAgain()
      const hasMoved = (!this.#waits.isWaiting && this.#round()) || isTriedAgain
      this.#isOver = this.#isAtEnd
      if (this.#isOver) return true
      if (!hasMoved) this.#hooks.stages?.outputs.flush()
      if (!hasMoved) await this.#sleep(tickMs)
      // Yield after a sleep too: calls that answer at once end it in the very turn in which it began, and no other code has
      // run.
      const restMs = this.#pace.restMs()
      if (restMs === null) continue
      this.#hooks.stages?.outputs.flush()
      if (restMs > 0) await this.#sleep(restMs)
      else await new Promise<void>((resolve) => clock.soon(resolve))
      this.#pace.begin()
    }
    return false
  }

  /**
   * The barrier. `stored`: the number of cells that the base of the checkpoint has, by table. With stages in other threads, the
   * barrier follows the records, and the promise resolves when every task was captured.
   */
  cut(id: CutId, stored: ReadonlyMap<string, number>): FlowCut | Promise<FlowCut> {
    // After a failure, the state may lack a record that is already before the position.
    if (this.#failure) throw this.#failure.error
    const { stages } = this.#hooks
    for (const source of this.#sources) source.isDue = false
    const positions = new Map(this.#sources.map(({ name, positions }) => [name, new Map(positions)]))
    const records = this.#sources.reduce((sum, { records }) => sum + records, 0)
    const captures = [...(stages ? [] : [this.#letterTable()]), ...this.#wiring.tables()].map((each) =>
      captureOf(each, stored),
    )
    const own = stages ? this.#sinksIn(0) : [...this.#writers]
    const prepares = new Map(own.map(([name, writer]) => [name, writer.cut(id)]))
    if (!stages) return { positions, captures, prepares, records, letters: this.letters.count }
    const tasks = stages.plan.tasks.slice(1).map(({ task }) => task)
    const cutting = new StagedCut({ id, stored, tasks, positions, captures, prepares, records })
    this.#cutting = cutting
    stages.outputs.barrier({ checkpoint: id.checkpoint, stored: Object.fromEntries(stored) })
    return cutting.done
  }

  /** The names of tasks in stages, each of which is captured separately. */
  get tasks(): readonly string[] {
    return this.#hooks.stages?.plan.tasks.slice(1).map(({ name }) => name) ?? []
  }

  get stages(): readonly StageView[] {
    return this.#hooks.stages?.plan.stages ?? []
  }

  /** Abandons a barrier that has not reached every task. */
  abandonCut(checkpoint: number): void {
    this.#hooks.stages?.abort(checkpoint)
    if (this.#cutting?.id.checkpoint !== checkpoint) return
    this.#cutting.abandon(new RepriseError('ABORTED', `the barrier of checkpoint ${checkpoint} was abandoned`))
    this.#cutting = null
  }

  #captured(task: number, checkpoint: number, captures: readonly CapturedTable[]): void {
    const cutting = this.#cutting
    if (cutting?.id.checkpoint !== checkpoint || this.#failure) {
      for (const { capture } of captures) capture.abandon()
      return
    }
    const { plan } = this.#hooks.stages!
    const prepares = this.#sinksIn(task).map(([name, writer]) => [name, writer.cut(cutting.id)] as const)
    const isLast = task === plan.last
    const letters = isLast ? [captureOf(this.#letterTable(), cutting.stored)] : []
    const isDone = cutting.add(task, [...captures, ...letters], prepares, isLast ? this.letters.count : null)
    if (isDone) this.#cutting = null
    this.onCaptured(plan.tasks[task]!.name, checkpoint)
    if (isDone) cutting.finish()
  }

  /** The sinks of a task. */
  #sinksIn(task: number): (readonly [string, SinkWriter])[] {
    const { plan } = this.#hooks.stages!
    const own = this.#graph.sinks.filter((sink) => plan.taskOf(sink, 0) === task)
    return own.map(({ name }) => [name, this.#writers.get(name)!] as const)
  }

  /** Reads no more records. Records in flight stay in the state. */
  halt(): void {
    this.#isHalted = true
    this.wake()
  }

  /** Abandons all work in progress. */
  close(): void {
    this.halt()
    for (const { operator } of this.#wiring.instances()) operator.stop?.()
  }

  /** Treats every source as ended. */
  drain(): void {
    for (const source of this.#sources) source.end()
    this.wake()
  }

  fail(error: unknown): void {
    this.#failure ??= { error }
    // A barrier does not pass a task that failed.
    this.#cutting?.abandon(error)
    this.#cutting = null
    this.failed.set(error)
    this.wake()
  }

  /** Sources wait until the promise settles. */
  wait(until: Promise<unknown>): void {
    this.#wait(until, checkpointsName)
  }

  wake(): void {
    this.#alarm.ring()
  }

  /**
   * Sends letters back to the operators and sources that could not process them. Default: all letters. Sends no letter back if
   * one of them has no receiver.
   */
  async redrive(given?: readonly number[]): Promise<number> {
    // After the barrier at the sources, a letter that is sent back would be in none of the captured states.
    while (this.#cutting) await this.#cutting.settled
    const ids = given ?? this.#letterIds()
    this.#checkLetters()
    const wanted = this.letters.list().filter(({ id }) => ids.includes(id))
    const lost = wanted.find(({ operator }) => !this.#takerOf(operator))
    if (lost) throw noTaker(lost.operator)
    for (const letter of this.letters.take(ids)) this.#sendBack(letter)
    this.wake()
    return wanted.length
  }

  #takerOf(name: string): OperatorNode | RunningSource | undefined {
    return [...this.#graph.operators, ...this.#sources].find((each) => each.name === name)
  }

  /** Sends a record to the operator input where it failed, or through the source that could not decode it. */
  #sendBack({ operator, value, time, key, input = 0, origin }: SetAside): void {
    const taker = this.#takerOf(operator)!
    sentBack(this.#hooks.origins, origin, () => {
      if (taker instanceof RunningSource) taker.again(value)
      else {
        const instance = this.#wiring.indexFor(taker, key)
        const here = this.#wiring.inputAgain(taker, instance, input)
        if (here) here.batch(batchOf({ value, time, key }))
        else this.#hooks.stages!.outputs.again(taker, instance, input, { value, time, key })
      }
    })
  }

  /** Retries records whose `RetryLater` time has passed, and then continues with watermarks held back for them. */
  #tryAgain(): boolean {
    const now = this.#hooks.clock.now()
    const due = this.letters.takeDue(now)
    for (const letter of due) {
      if (this.#takerOf(letter.operator)) this.#sendBack(letter)
      else this.#contextOf(letter.operator, null).poison(letter, new Error(letter.error))
    }
    for (const name of new Set(due.map(({ operator }) => operator))) {
      if (!this.letters.isWaiting(name)) this.#gates.get(name)?.open()
    }
    return due.length > 0
  }

  #gateOf(name: string): WatermarkGate {
    const gate = this.#gates.get(name) ?? new WatermarkGate(() => this.letters.isWaiting(name))
    this.#gates.set(name, gate)
    return gate
  }

  /** Discards letters. Default: all letters. Returns their number. */
  discard(ids = this.#letterIds()): number {
    this.#checkLetters()
    return this.letters.take(ids).length
  }

  #letterIds(): readonly number[] {
    return this.letters.list().map(({ id }) => id)
  }

  /** Refuses changes to letters once the last checkpoint is made or about to be made: it would not contain them. */
  #checkLetters(): void {
    if (this.#failure) throw this.#failure.error
    const { pipeline } = this.#hooks
    if (this.#isOver) throw new RepriseError('CLOSED', lettersStay(pipeline))
    if (this.#isHalted) throw new RepriseError('CLOSED', `${pipeline} was stopped: run it again, and query the new run`)
  }

  get scale(): Scale {
    return this.#hooks.scale
  }

  get pending(): number {
    let most = 0
    for (const writer of this.#writers.values()) most = Math.max(most, writer.pending)
    return most
  }

  /** True: a source waits for a checkpoint. */
  get isDue(): boolean {
    return this.#sources.some((source) => source.isDue)
  }

  get sources(): readonly RunningSource[] {
    return this.#sources
  }

  /** The lowest position in the store's feed that these positions need; null: no source reads the feed. */
  cursor(positions: ReadonlyMap<string, ReadonlyMap<string, unknown>>): string | null {
    const places = this.#sources.flatMap(({ name, reader }) => reader.cursor?.(positions.get(name) ?? new Map()) ?? [])
    return places.length === 0 ? null : places.reduce((lowest, place) => (place < lowest ? place : lowest))
  }

  get lateRecords(): number {
    return this.#lateRecords + (this.#hooks.stages?.lateRecords ?? 0)
  }

  /** The time that sources waited for sinks and calls. */
  get blockedMs(): number {
    return this.#waits.ms
  }

  operators(): OperatorStatus[] {
    return this.#behindSources().map(({ name, records, inFlight, keys, busyMs, waitedMs }) => {
      return { name, records, inFlight, keys, busyMs, blockedMs: waitedMs }
    })
  }

  /** The parts of the flow, and how busy each was in the last seconds. */
  moment(): FlowMoment {
    return { at: this.#hooks.clock.now(), lateRecords: this.lateRecords, ...this.#figures.now() }
  }

  #sample(): Sample {
    const { clock } = this.#hooks
    const sources = this.#sources.map((source) =>
      sourceFigures(source, this.#sourceCounts.get(source.name)!, this.#waits, clock.now()),
    )
    return {
      elapsedMs: clock.elapsed(),
      parts: [...sources, ...this.#behindSources()],
      checkpointsMs: this.#waits.msFor(checkpointsName),
      waitedMs: this.#waits.ms,
      tasks: [this.#firstTask(sources), ...(this.#hooks.stages?.tasks() ?? [])],
    }
  }

  /** The figures of the task that reads the sources, with the operators of its stage. */
  #firstTask(sources: readonly PartFigures[]): TaskCounts {
    let busyMs = sources.reduce((sum, each) => sum + each.busyMs, 0)
    for (const [, { instances, counts }] of this.#wiring.nodes()) if (instances.length > 0) busyMs += counts.busyMs
    const records = sources.reduce((sum, each) => sum + each.records, 0)
    const none = { task: 0, alignedMs: 0, waitingChannels: 0 }
    return { ...none, records, busyMs, blockedMs: this.#waits.ms, parts: sources }
  }

  #behindSources(): PartFigures[] {
    const elsewhere = this.#hooks.stages?.counts()
    const operators = [...this.#wiring.nodes()].map(([{ name }, { instances, counts }]) => {
      const here = operatorFigures(name, instances, counts, this.#waits, this.#isOver)
      return { ...here, ...elsewhere?.get(name) }
    })
    const sinks = [...this.#sinkInputs].map(([{ name }, { counts }]) =>
      sinkFigures(name, this.#writers.get(name)!.pending, counts, this.#waits, this.#isOver),
    )
    return [...operators, ...sinks]
  }

  get #isAtEnd(): boolean {
    if (this.#waits.isWaiting || this.letters.waiting > 0) return false
    if (!this.#sources.every(({ isEnded }) => isEnded)) return false
    for (const { operator } of this.#wiring.instances()) if ((operator.inFlight?.() ?? 0) > 0) return false
    return true
  }

  /** Takes one batch of each source that has one. False: no source had any. */
  #round(): boolean {
    let records = 0
    let hasMoved = false
    for (const source of this.#sources) {
      if (this.#waits.isWaiting || this.letters.waiting >= waitingMax) break
      if (this.#isHeldByStage()) break
      const counts = this.#sourceCounts.get(source.name)!
      const count = this.#pace.step((most) => this.#busy.spend(counts, () => source.step(most)))
      if (count >= 0) hasMoved = true
      if (count > 0) records += count
    }
    if (records > 0) this.#hooks.onRecords(records)
    return hasMoved
  }

  /** Sources wait while a task has too many frames in flight. */
  #isHeldByStage(): boolean {
    const { stages } = this.#hooks
    const full = stages?.outputs.fullTask
    if (!stages || full === undefined) return false
    this.#wait(new Promise((resolve) => stages.outputs.whenFree(() => resolve(undefined))), stages.partOf(full))
    return true
  }

  #tick(): void {
    const { clock } = this.#hooks
    if (clock.elapsed() - this.#tickedAt < tickMs) return
    this.#tickedAt = clock.elapsed()
    const now = clock.now()
    for (const source of this.#sources) source.tick(now)
    for (const [, { instances, counts }] of this.#wiring.nodes()) {
      for (const { operator } of instances) if (operator.tick) this.#busy.spend(counts, () => operator.tick!(now))
    }
    this.#figures.sample(this.#tickedAt)
    this.#hooks.onRecords(0)
  }

  async #sleep(ms: number): Promise<void> {
    await this.#alarm.sleep(ms)
  }

  #wait(until: Promise<unknown>, name: string): void {
    this.#waits.begin(name)
    until
      .then(() => {
        this.#waits.end(name)
        this.wake()
      })
      .catch((error) => this.fail(error))
  }

  #sinkInput(node: SinkNode): Output {
    const held = this.#sinkInputs.get(node)
    if (held) return held.input
    const writer = this.#writers.get(node.name)!
    const counts = newCounts()
    const own: Output = {
      batch: (batch) => {
        const until = writer.write(batch)
        if (until) this.#wait(until, node.name)
      },
      watermark() {},
      idle() {},
    }
    const input = this.#busy.counted(own, counts)
    this.#sinkInputs.set(node, { input, counts })
    return input
  }

  #addLetter(operator: string, record: PoisonRecord, error: unknown, at: number): void {
    try {
      this.letters.add(operator, record, error, at)
    } catch (tooMany) {
      this.fail(tooMany)
    }
  }

  #contextOf(name: string, outputs: TaskOutputs | null): OperatorContext {
    const { clock, random, pipeline, resources, trace, origins } = this.#hooks
    return {
      ...{ name, clock, random, pipeline, trace, origins, resource: resources.get(name) ?? null },
      poison: (record, error) => {
        if (isFaultyCode(error)) return this.fail(error)
        if (outputs && isRetryLater(error)) return this.fail(noRetryLater(name))
        if (outputs && !outputs.keepsLetters) outputs.letter(name, record, textOf(error), clock.now())
        else this.#addLetter(name, withOrigin(origins, name, record), error, clock.now())
      },
      late: (count) => {
        this.#lateRecords += count
      },
      wait: (until) => this.#wait(until, name),
      wake: () => this.wake(),
      fail: (error) => this.fail(error),
    }
  }
}

function captureOf({ table, ...name }: NamedTable, stored: ReadonlyMap<string, number>): CapturedTable {
  return { ...name, capture: table.capture(isDueInFull(stored.get(partName(name)), table)) }
}
