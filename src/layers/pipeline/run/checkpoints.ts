// The checkpoints of one run: the coordinator decides, the flow is cut, state is written while records flow, and one commit
// publishes positions, state and the rows of sinks that write to the store. Sinks in other systems commit afterwards.

import { assert } from '../../../core/assert.ts'
import type { ManifestId } from '../../../core/coordinate.ts'
import { isReprise, RepriseError } from '../../../core/errors.ts'
import { growingPause } from '../../../core/retry/pause.ts'
import type { Attribute, ManifestRecord, Sql } from '../../../core/store/ports.ts'
import type { RunTrace } from '../../../engine/base/tracing.ts'
import type { Failing } from '../../../engine/base/worker.ts'
import type { CheckpointTiming, TimingMark } from '../../../engine/checkpoint/timing.ts'
import { ChunkHold } from '../../../engine/storage/chunk-hold.ts'
import type { Kernel } from '../../../engine/storage/kernel.ts'
import type { StateTimeline } from '../../../engine/writing/state-timeline.ts'
import type { Graph } from '../graph.ts'
import { type CheckpointAction, CheckpointCoordinator, type CheckpointKind } from '../rules/coordinator.ts'
import type { Prepared, SinkWriter } from '../sink.ts'
import { CallOff } from './checkpoint-bounds.ts'
import { type CheckpointBase, type StoredTable, type WrittenState, writeState } from './checkpoint-writer.ts'
import { namedParts } from './code-changes.ts'
import { whyEnded } from './displaced.ts'
import type { Flow } from './flow.ts'
import type { Neighbours } from './pace.ts'
import type { FlowCut } from './staged-cut.ts'
import {
  type CheckpointFacts,
  type PipelineStage,
  type PipelineState,
  pipelineFold,
  pipelineVersion,
  recentMax,
  statusOfStage,
} from './state.ts'
import { type CheckpointOutcome, tracedCheckpoint } from './trace.ts'

/** The number of consecutive failures before the alarm. */
const failuresMax = 3
/** User SQL may hit a deadlock once; after three failures the SQL itself is at fault. */
const sqlFailuresMax = 3
/** Removing old checkpoints costs a few commits, so it does not follow each checkpoint. */
const retainEvery = 8
/** The task that reads the sources and writes the checkpoint: all instances that it calls are cut together. */
const flowTask = 'flow'

export interface MadeCheckpoint {
  readonly id: string
  readonly facts: CheckpointFacts
}

interface Snapshot {
  readonly cut: FlowCut
  readonly hold: ChunkHold
  readonly written: WrittenState
  readonly prepared: ReadonlyMap<string, Prepared>
  readonly state: PipelineState
  readonly mark: TimingMark
  readonly startedMs: number
}

interface CheckpointRequest {
  readonly label: string | undefined
  readonly stage: PipelineStage
  resolve(made: MadeCheckpoint): void
  reject(error: unknown): void
}

export interface CheckpointsOf {
  readonly kernel: Kernel
  readonly taken: StateTimeline
  readonly graph: Graph
  readonly flow: Flow
  readonly writers: ReadonlyMap<string, SinkWriter>
  readonly timing: CheckpointTiming
  readonly restored: { readonly state: PipelineState; readonly base: CheckpointBase | null }
  /** The highest number of a checkpoint that this process has attempted under this ownership. */
  readonly lastId: number
  readonly timeoutMs: number
  /** Null: tracing is off. */
  readonly trace: RunTrace | null
  readonly neighbours: Neighbours
  /** A savepoint that is released once there is a newer checkpoint. */
  readonly leftBy: ManifestId | null
  /** Attributes to write with each checkpoint. */
  readonly noted: Readonly<Record<string, Attribute | null>> | undefined
}

export class Checkpoints {
  readonly #of: CheckpointsOf
  /** Tasks of stages acknowledge without a snapshot: the flow gathers what they captured. */
  readonly #coordinator: CheckpointCoordinator<Snapshot | null>
  readonly #requests = new Map<number, CheckpointRequest>()
  #state: PipelineState
  #base: CheckpointBase | null
  #nextRequest = 1
  #underWay: Promise<void> | null = null
  #sqlFailures = 0
  #sinceRetained = 0
  #made = 0
  #lastId: number
  #leftBy: ManifestId | null
  #lastFailure: string | null = null
  #failingSince: number | null = null
  /** No periodic checkpoint before this time: constant retries do not help a failing one. */
  #pausedUntil = Number.NEGATIVE_INFINITY
  #isOver = false
  /** The checkpoint in progress. */
  #current: CallOff | null = null
  /** The number of records that earlier runs read. */
  readonly #recordsBefore: number

  constructor(of: CheckpointsOf) {
    this.#of = of
    this.#recordsBefore = of.restored.state.records
    this.#leftBy = of.leftBy
    this.#state = of.restored.state
    this.#base = of.restored.base
    const { timeoutMs } = of
    this.#lastId = Math.max(of.lastId, of.restored.state.checkpoint)
    this.#coordinator = new CheckpointCoordinator({ timeoutMs, failuresMax }, this.#lastId)
    const { epoch } = of.taken.head
    for (const task of [flowTask, ...of.flow.tasks]) this.#act(this.#coordinator.running(task, epoch, this.#now))
    of.flow.onCaptured = (task, checkpoint) => {
      this.#act(this.#coordinator.acknowledge(checkpoint, { task, attempt: epoch }, null))
    }
  }

  /** The state of the newest checkpoint. */
  get state(): PipelineState {
    return this.#state
  }

  get baseId(): string | null {
    return this.#base?.id ?? null
  }

  /** The highest number of a checkpoint that was attempted: sinks rely on numbers that are never used twice in one epoch. */
  get lastId(): number {
    return this.#lastId
  }

  /** The number of checkpoints of this run. */
  get made(): number {
    return this.#made
  }

  get failures(): number {
    return this.#coordinator.failures
  }

  /** Each heartbeat reports it, so that operators see when recovery points no longer advance. */
  get failing(): readonly Failing[] {
    if (this.failures === 0 || this.#failingSince === null) return []
    const reason = this.#lastFailure ?? 'no checkpoint is made'
    return [{ timeline: this.#of.taken.id, since: this.#failingSince, failures: this.failures, reason }]
  }

  get lastFailure(): string | null {
    return this.#lastFailure
  }

  get isUnderWay(): boolean {
    return this.#underWay !== null
  }

  /** Settles with the checkpoint in progress, if any. */
  async settled(): Promise<void> {
    while (this.#underWay) await this.#underWay
  }

  /** Requests a checkpoint for the policy, or because a sink holds many records. */
  periodic(): void {
    if (this.#underWay || this.#now < this.#pausedUntil) return
    const request = this.#nextRequest++
    this.#act(this.#coordinator.request(request, 'periodic', this.#now))
  }

  /** Makes a checkpoint for a caller that waits. `stage`: the status of the pipeline from then on. */
  make(
    kind: CheckpointKind,
    options: { readonly label?: string; readonly stage?: PipelineStage } = {},
  ): Promise<MadeCheckpoint> {
    return new Promise((resolve, reject) => {
      const number = this.#nextRequest++
      this.#requests.set(number, { label: options.label, stage: options.stage ?? 'running', resolve, reject })
      this.#act(this.#coordinator.request(number, kind, this.#now))
    })
  }

  tick(): void {
    this.#act(this.#coordinator.tick(this.#now))
  }

  /** Starts no further checkpoint, and stops waiting for sinks and sources in the one in progress. */
  end(error: unknown): void {
    this.#isOver = true
    for (const { reject } of this.#requests.values()) reject(error)
    this.#requests.clear()
    this.#current?.callOff(error)
  }

  /** The last checkpoint took too long: the run ends without it. */
  giveUp(): void {
    const { taken, timeoutMs } = this.#of
    this.end(
      (this.#current ?? new CallOff(this.#of.kernel.worker, taken.id, this.#state.checkpoint + 1)).tooLate(timeoutMs),
    )
  }

  get #now(): number {
    return this.#of.kernel.clock.elapsed()
  }

  #act(actions: readonly CheckpointAction<Snapshot | null>[]): void {
    for (const action of actions) {
      switch (action.do) {
        case 'start':
          this.#start(action.id, action.kind)
          break
        case 'answer':
          this.#answer(action.request, action.id, action.why)
          break
        case 'alarm': {
          const what = `no checkpoint for ${action.failures} attempts: ${action.why}`
          this.#of.kernel.events.emit('report', { kind: 'checkpoint-failed', timeline: this.#of.taken.id, what })
          break
        }
        case 'abort':
          this.#lastFailure = action.why.replace(`${flowTask}: `, '')
          this.#failingSince ??= this.#now
          if (this.#current?.id === action.id) this.#current.callOff(this.#current.tooLate(this.#of.timeoutMs))
          break
        case 'publish':
        case 'complete':
        case 'discard':
          // The flow acknowledges last, so these actions are steps of #run; unreferenced chunks are collected.
          break
      }
    }
  }

  #answer(number: number, id: number | null, why: string | null): void {
    const request = this.#requests.get(number)
    this.#requests.delete(number)
    if (id !== null) request?.resolve({ id: this.#base!.id, facts: this.#state.recent.at(-1)! })
    else request?.reject(new RepriseError('RUN_FAILED', `${this.#of.taken.id}: no checkpoint was made: ${why}`))
  }

  /** Starts after the previous checkpoint, whose chunks may still be in transit although it was aborted. */
  #start(id: number, kind: CheckpointKind): void {
    this.#lastId = id
    const running = (this.#underWay ?? Promise.resolve()).then(() =>
      this.#isOver ? undefined : tracedCheckpoint(this.#of.trace, id, kind, () => this.#run(id, kind)),
    )
    const settled = running
      .catch((error) => this.#of.flow.fail(error))
      .then(() => {
        if (this.#underWay === settled) this.#underWay = null
        this.#of.flow.wake()
      })
    this.#underWay = settled
  }

  /** Returns the outcome of the checkpoint. */
  async #run(id: number, kind: CheckpointKind): Promise<CheckpointOutcome> {
    const { flow, taken, timing } = this.#of
    const from = { task: flowTask, attempt: taken.head.epoch }
    const requests = [...this.#requests.values()]
    const stage = requests.find((each) => each.stage !== 'running')?.stage ?? 'running'
    assert(id > this.#state.checkpoint, 'checkpoints are numbered upward')
    const startedMs = this.#now
    const mark = timing.mark()
    const base = this.#base
    this.#current = new CallOff(this.#of.kernel.worker, taken.id, id)
    const stored = new Map([...(base?.tables ?? [])].map(([name, { cells }]) => [name, cells]))
    // No await from here to the end of `cut`: this is the barrier. In stages of other threads, it follows the records.
    const cutting = flow.cut({ checkpoint: id, epoch: taken.head.epoch }, stored)
    const cut = cutting instanceof Promise ? await this.#aligned(id, cutting) : cutting
    if (cut === null) return { outcome: 'called off' }
    let snapshot: Snapshot | null = null
    let isPublishing = false
    let record: ManifestRecord
    try {
      snapshot = await this.#write({ cut, id, stage, mark, startedMs })
      const actions = this.#coordinator.acknowledge(id, from, snapshot)
      isPublishing = actions.some((action) => action.do === 'publish')
      if (!isPublishing) {
        this.#rejoin(cut)
        this.#act(actions)
        return { outcome: 'called off' }
      }
      const label = requests.find((each) => each.label !== undefined)?.label
      record = await this.#publish(snapshot, kind, label)
    } catch (error) {
      this.#rejoin(cut)
      if (this.#isOver) return { outcome: 'called off' }
      this.#failed(error, (why) =>
        isPublishing
          ? this.#coordinator.refused(id, why, this.#now)
          : this.#coordinator.decline(id, from, why, this.#now),
      )
      return { outcome: 'failed', error }
    } finally {
      snapshot?.hold.end()
    }
    // The checkpoint exists: a later failure ends the run, and the next run commits again everything the checkpoint lists.
    await this.#settle(snapshot, record, kind)
    this.#act(this.#coordinator.published(id, this.#now))
    return { outcome: 'published', facts: this.#state.recent.at(-1)! }
  }

  /** Waits until the barrier has reached every task. Null: the attempt was aborted, and its captures are abandoned. */
  async #aligned(id: number, cutting: Promise<FlowCut>): Promise<FlowCut | null> {
    try {
      return await this.#current!.waitFor('its barrier to reach every task', cutting)
    } catch (error) {
      this.#of.flow.abandonCut(id)
      for (const writer of this.#of.writers.values()) writer.rejoin()
      if (this.#isOver) return null
      const from = { task: flowTask, attempt: this.#of.taken.head.epoch }
      this.#failed(error, (why) => this.#coordinator.decline(id, from, why, this.#now))
      return null
    }
  }

  async #write(what: {
    readonly cut: FlowCut
    readonly id: number
    readonly stage: PipelineStage
    readonly mark: TimingMark
    readonly startedMs: number
  }): Promise<Snapshot> {
    const { kernel } = this.#of
    const { cut, mark, startedMs } = what
    const hold = await ChunkHold.begin(kernel)
    try {
      const prepared = new Map<string, Prepared>()
      let state = this.#state
      const written = await writeState(kernel, hold, cut.captures, this.#base, async (tables) => {
        for (const [name, prepare] of cut.prepares)
          prepared.set(name, await this.#current!.waitFor(`the sink ${name}`, prepare()))
        state = this.#headerOf(what, tables, prepared)
        return state
      })
      return { cut, hold, written, prepared, state, mark, startedMs }
    } catch (error) {
      hold.end()
      throw error
    }
  }

  #headerOf(
    what: { readonly cut: FlowCut; readonly id: number; readonly stage: PipelineStage },
    tables: ReadonlyMap<string, StoredTable>,
    prepared: ReadonlyMap<string, Prepared>,
  ): PipelineState {
    const { graph, flow } = this.#of
    return {
      ...this.#state,
      ...flow.scale,
      format: flow.scale.parallelism > 1 ? 2 : 1,
      stage: what.stage,
      checkpoint: what.id,
      records: this.#recordsBefore + what.cut.records,
      ...namedParts(graph, what.cut.positions),
      tables: Object.fromEntries([...tables].map(([name, { cells, keys }]) => [name, { stored: cells, cells: keys }])),
      sinks: Object.fromEntries(prepared),
      letters: what.cut.letters,
      cursor: flow.cursor(what.cut.positions),
      flow: flow.moment(),
    }
  }

  async #publish(snapshot: Snapshot, kind: CheckpointKind, label: string | undefined): Promise<ManifestRecord> {
    const { taken, writers, timing, neighbours } = this.#of
    const { written, state, hold } = snapshot
    const appliers = [...writers.values()].filter((writer) => writer.apply)
    const applyAll = async (sql: Sql) => {
      for (const writer of appliers) await writer.apply!(sql)
    }
    return await taken.publish({
      entry: {
        type: 'checkpoint',
        data: { checkpoint: state.checkpoint, kind, stage: state.stage, records: state.records },
      },
      parts: written.parts,
      foldVersion: pipelineVersion,
      totalBytes: written.totalBytes,
      addedBytes: written.addedBytes,
      addedChunks: written.addedChunks,
      hold,
      baseId: this.#base?.id ?? null,
      trigger: kind === 'periodic' ? (timing.decision?.trigger ?? 'time') : kind,
      label,
      pin: kind === 'savepoint',
      extras: {
        status: statusOfStage[state.stage],
        attributes: { ...this.#of.noted, records: state.records, dead: state.letters },
        ...(state.cursor !== null && { cursors: { [taken.id]: state.cursor } }),
        ...(appliers.length > 0 && { userSql: (sql: Sql) => neighbours.whileWriting(() => applyAll(sql)) }),
      },
    })
  }

  /** Notifies sinks, sources and callers of the published checkpoint. */
  async #settle(snapshot: Snapshot, record: ManifestRecord, kind: CheckpointKind): Promise<void> {
    const { writers, flow, timing, kernel, taken } = this.#of
    const { cut, written, state, prepared, mark, startedMs } = snapshot
    assert(state.records >= this.#state.records, 'a checkpoint is not behind the one before it')
    for (const { capture } of cut.captures) capture.publish()
    const ms = this.#now - startedMs
    const facts: CheckpointFacts = {
      checkpoint: state.checkpoint,
      kind,
      at: record.createdAt,
      ms,
      bytes: written.totalBytes,
      addedBytes: written.addedBytes,
      longestStallMs: written.longestStallMs,
    }
    this.#state = { ...state, recent: [...state.recent, facts].slice(-recentMax) }
    this.#base = { id: record.id, tables: written.tables }
    this.#made += 1
    this.#sqlFailures = 0
    this.#lastFailure = null
    this.#failingSince = null
    kernel.worker.progressed(1)
    kernel.failures.succeeded(taken.id)
    this.#pausedUntil = Number.NEGATIVE_INFINITY
    timing.published(mark, { ms, bytes: written.totalBytes, stallMs: written.longestStallMs })
    kernel.events.emit('checkpoint-published', {
      ...{ coordinate: taken.coordinate, id: record.id, trigger: record.trigger, because: record.trigger },
      ...{ totalBytes: written.totalBytes, addedBytes: written.addedBytes, ms, longestStallMs: written.longestStallMs },
    })
    const waits = this.#current!
    for (const [name, writer] of writers) await waits.waitFor(`the sink ${name}`, writer.commit(prepared.get(name)))
    for (const { name, reader } of flow.sources) {
      await waits.waitFor(`the source ${name}`, reader.published?.(cut.positions.get(name)!))
    }
    await this.#retain()
  }

  async #retain(): Promise<void> {
    const { taken, timing } = this.#of
    if (this.#leftBy) await taken.mark({ id: this.#leftBy, isPinned: false })
    this.#leftBy = null
    this.#sinceRetained += 1
    if (this.#sinceRetained < retainEvery) return
    this.#sinceRetained = 0
    const attributes = timing.kept()
    if (Object.keys(attributes).length > 0) await taken.write({ attributes })
    await taken.retain(pipelineFold.retain!, pipelineVersion)
  }

  #rejoin(cut: FlowCut): void {
    for (const { capture } of cut.captures) capture.abandon()
    for (const writer of this.#of.writers.values()) writer.rejoin()
  }

  /** Rethrows an error that the run cannot survive. */
  #failed(error: unknown, notify: (why: string) => CheckpointAction<Snapshot | null>[]): void {
    const { kernel, taken } = this.#of
    const why = error instanceof Error ? error.message : String(error)
    this.#lastFailure = why
    this.#failingSince ??= this.#now
    // The base may be missing or damaged: the next checkpoint is full.
    this.#base = null
    const actions = notify(why)
    const failuresInARow = this.failures
    this.#pausedUntil = this.#now + growingPause(failuresInARow, 200, 60_000)
    void whyEnded(kernel, taken, error).then((known) => kernel.failures.failed(taken.id, known))
    kernel.events.emit('checkpoint-failed', { timeline: taken.id, error, failuresInARow })
    if (isReprise(error, 'RIDER_FAILED')) this.#sqlFailures += 1
    const isFinal = isReprise(error, 'RIDER_FAILED')
      ? this.#sqlFailures >= sqlFailuresMax
      : !isReprise(error) || error.remedy === 'fix'
    if (taken.broken) throw taken.broken
    if (isFinal) throw error
    this.#act(actions)
  }
}
