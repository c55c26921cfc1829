// A run of a pipeline in this process: takes the timeline under a new epoch, restores the newest checkpoint, opens sinks and
// sources at its positions, and processes records until the sources end or the run is stopped. A process that takes the
// pipeline over fences the run: none of its later writes become visible.

import { timelineId } from '../../../core/coordinate.ts'
import { toMs } from '../../../core/duration.ts'
import { isReprise, RepriseError } from '../../../core/errors.ts'
import { checkOptions, namesOf } from '../../../core/options.ts'
import { unlessAborted } from '../../../engine/base/abortable-wait.ts'
import { whileAwaited } from '../../../engine/base/stay-alive.ts'
import { checkStop, type StopOptions } from '../../../engine/base/stop-options.ts'
import type { RunTrace } from '../../../engine/base/tracing.ts'
import { CheckpointTiming } from '../../../engine/checkpoint/timing.ts'
import type { Host } from '../../../engine/host/host.ts'
import { openedAs } from '../../../engine/model/model.ts'
import { StateTimeline } from '../../../engine/writing/state-timeline.ts'
import type { Graph } from '../graph.ts'
import type { OperatorResource } from '../operator.ts'
import type { SourceReader } from '../source.ts'
import { ThreadDied } from '../stages/messages.ts'
import type { StagePlan } from '../stages/plan.ts'
import type { Stages } from '../stages/stages.ts'
import { CheckpointTrigger, untilMade } from './checkpoint-trigger.ts'
import { Checkpoints, type MadeCheckpoint } from './checkpoints.ts'
import { type Candidate, chooseCheckpoint, fillTables, isLeftBy } from './choose-checkpoint.ts'
import { matchNames } from './code-changes.ts'
import { whyEnded } from './displaced.ts'
import { Flow } from './flow.ts'
import { liveRuns, neighboursOf, viewOf } from './flow-view.ts'
import type { PipelineLetter } from './letters.ts'
import { applyEarlier, listenForMail } from './mail.ts'
import { closeAll, commitLast, openedUnlessAborted, openSinks, type SinksOf } from './open-sinks.ts'
import { openStages, stagePlanOf } from './open-stages.ts'
import { type ResolvedPipelineOptions, scaleOf } from './options.ts'
import { namesNoted, notBegun, originsOf } from './record-origins.ts'
import { type PipelineReport, type PipelineStatus, type PipelineWaitOptions, statusOf } from './report.ts'
import { type PipelineState, sharedAttribute, sharedError } from './state.ts'
import { tracePipeline } from './trace.ts'
import type { Scale } from './wiring.ts'

/** The stored positions of each source, by partition. */
type Positions = Map<string, ReadonlyMap<string, unknown>>

/** After this many deaths of threads without a checkpoint between them, the run fails. */
const deathsMax = 3

/** A run without a checkpoint is treated as steady too once records have flowed for this long. */
const steadyMs = 10_000

type Ending = 'stopped' | 'cancelled'

const knownWait = namesOf<PipelineWaitOptions>()('signal')
const knownSavepoint = namesOf<PipelineWaitOptions & { readonly label?: string }>()('signal label')

export class PipelineRun {
  readonly name: string
  readonly timeline: string
  readonly #engine: Host
  readonly #graph: Graph
  readonly #partitions: readonly string[] | null
  readonly #options: ResolvedPipelineOptions
  #abort = new AbortController()
  readonly #startedMs: number
  readonly #ready: Promise<void>
  readonly #result: Promise<PipelineReport>
  #isReady: () => void = () => undefined
  #isNotReady: (error: unknown) => void = () => undefined
  #taken: StateTimeline | null = null
  #flow: Flow | null = null
  #checkpoints: Checkpoints | null = null
  #restored: PipelineState | null = null
  #stopping: { readonly ending: Ending; readonly label: string | undefined } | null = null
  #isEnded = false
  /** True: the call is refused, and the pipeline itself did not fail. */
  #isShared = false
  #seenRecords = 0
  #endedAs: PipelineStatus['status'] = 'failed'
  #stopMs: number | null = null
  #stopLimit: () => void = () => undefined
  #trace: RunTrace | null = null

  /** @internal `partitions`: the only partitions to read; null: all. */
  constructor(
    engine: Host,
    name: string,
    timeline: string,
    graph: Graph,
    options: ResolvedPipelineOptions,
    partitions: readonly string[] | null = null,
  ) {
    this.#partitions = partitions
    this.#engine = engine
    this.name = name
    this.timeline = timeline
    this.#graph = graph
    this.#options = options
    this.#startedMs = engine.clock.elapsed()
    this.#ready = new Promise((resolve, reject) => {
      this.#isReady = resolve
      this.#isNotReady = reject
    })
    this.#ready.catch(() => undefined)
    this.#result = this.#drive()
    this.#result.then(
      ({ status }) => this.#trace?.left(status),
      (error) => this.#trace?.left('failed', error),
    )
  }

  /** Resolves when the run has ended or was stopped or cancelled; rejects if it failed. */
  async result(options: PipelineWaitOptions = {}): Promise<PipelineReport> {
    checkOptions('result', options, knownWait)
    return await unlessAborted(whileAwaited(this.#result), options.signal, `waiting for ${this.timeline}`)
  }

  /** Settles when records flow. */
  async started(options: PipelineWaitOptions = {}): Promise<this> {
    checkOptions('started', options, knownWait)
    await unlessAborted(this.#ready, options.signal, `waiting for ${this.timeline} to start`)
    return this
  }

  /** The id in the options of the run. Default: the name of the definition. */
  get id(): string {
    return openedAs(`pipeline/${this.name}`, this.timeline, this.name)
  }

  /** The figures of this process. */
  status(): PipelineStatus {
    const flow = this.#flow
    const status = this.#isEnded ? this.#endedAs : this.#stopping ? 'stopping' : flow ? 'running' : 'starting'
    const { clock } = this.#engine
    return statusOf(status, flow, this.#checkpoints, clock.now(), clock.elapsed() - this.#startedMs)
  }

  /** Makes a checkpoint now. */
  async checkpoint(options: PipelineWaitOptions = {}): Promise<MadeCheckpoint> {
    return await this.#make('manual', options)
  }

  /** Makes a checkpoint that is kept until it is released, with an optional label. */
  async savepoint(options: PipelineWaitOptions & { readonly label?: string } = {}): Promise<MadeCheckpoint> {
    return await this.#make('savepoint', options)
  }

  /**
   * Stops with a savepoint, from which the next run resumes; its label is `reason`. Without a savepoint within `timeout`
   * (default: `checkpointTimeout`), the run ends with TIMEOUT. With `drain`, sources are treated as ended: open windows emit
   * their results, and the pipeline is completed.
   */
  async stop(options: StopOptions & { readonly drain?: boolean } = {}): Promise<PipelineReport> {
    checkStop(options, ['drain'])
    if (options.timeout !== undefined) this.#stopMs = toMs(options.timeout, 'timeout')
    return await unlessAborted(this.#stop(options), options.signal, `waiting for ${this.timeline} to stop`)
  }

  async #make(kind: 'manual' | 'savepoint', options: PipelineWaitOptions & { readonly label?: string }) {
    checkOptions(kind === 'manual' ? 'checkpoint' : kind, options, kind === 'manual' ? knownWait : knownSavepoint)
    const { signal, ...rest } = options
    const made = this.#running().then((checkpoints) => checkpoints.make(kind, rest))
    return await unlessAborted(made, signal, `waiting for a checkpoint of ${this.timeline}`)
  }

  async #stop(options: { readonly drain?: boolean; readonly reason?: string }): Promise<PipelineReport> {
    if (this.#isEnded) return await this.#result
    // The run waits for ownership: nothing was read yet.
    if (!this.#taken && !options.drain) return await this.cancel()
    // A sink or source that is being opened may be slow to answer, and nothing was read yet.
    if (!this.#flow && !options.drain) {
      this.#stopping ??= { ending: 'stopped', label: options.reason }
      this.#abort.abort(new RepriseError('CANCELLED', `${this.timeline} was stopped`))
      return await this.result()
    }
    await this.#ready.catch(() => undefined)
    if (options.drain) this.#flow?.drain()
    else {
      this.#stopping ??= { ending: 'stopped', label: options.reason }
      this.#flow?.halt()
    }
    return await this.result()
  }

  /** Stops at once, even if a call hangs. The next run reads all records after the last checkpoint again. */
  async cancel(): Promise<PipelineReport> {
    const error = new RepriseError('CANCELLED', `${this.timeline} was cancelled`)
    this.#stopping = { ending: 'cancelled', label: undefined }
    this.#abort.abort(error)
    this.#checkpoints?.end(error)
    this.#flow?.halt()
    return await this.result()
  }

  /** Records that could not be processed, oldest first. */
  async deadLetters(): Promise<readonly PipelineLetter[]> {
    return (await this.#flowing()).letters.list()
  }

  /**
   * Sends letters back to the operators that could not process them. Default: all letters. Returns their number. Rejects with
   * CLOSED once the run has ended.
   */
  async redrive(ids?: readonly number[]): Promise<number> {
    return (await this.#flowing()).redrive(ids)
  }

  /** Discards letters. Default: all letters. Returns their number. Rejects with CLOSED once the run has ended. */
  async discard(ids?: readonly number[]): Promise<number> {
    return (await this.#flowing()).discard(ids)
  }

  async #flowing(): Promise<Flow> {
    await this.#ready
    if (!this.#flow) throw new RepriseError('CLOSED', `${this.timeline} has ended`)
    return this.#flow
  }

  async #running(): Promise<Checkpoints> {
    await this.#flowing()
    if (this.#isEnded || this.#stopping) throw new RepriseError('CLOSED', `${this.timeline} was stopped`)
    return this.#checkpoints!
  }

  async #drive(): Promise<PipelineReport> {
    const { kernel } = this.#engine
    const { wait, takeover = false, signal } = this.#options
    const forget = this.#engine.onClose(() => this.#leave())
    const offBusy = this.#engine.watchBusy(() => this.#hasMoved())
    const seen = { view: () => viewOf(this.#flow, this.#checkpoints) }
    liveRuns(this.#engine).set(this.timeline, seen)
    const onAbort = () => void this.stop().catch(() => undefined)
    signal?.addEventListener('abort', onAbort, { once: true })
    if (signal?.aborted) queueMicrotask(onAbort)
    try {
      const how = { takeover, signal: this.#abort.signal, ...(wait !== undefined && { wait }) }
      this.#taken = await StateTimeline.take(kernel, timelineId(this.timeline), how)
      const report = await this.#runRestarting(this.#taken).catch(async (thrown) => {
        const error = await whyEnded(kernel, this.#taken!, thrown)
        const ending = this.#endedBy(error)
        if (ending === null && !this.#isShared) await kernel.failures.failed(this.timeline, error)
        // Other processes must see a true status: the run has stopped. A shared pipeline keeps the status of its workers.
        if (ending === 'stopped' || this.#isShared) await this.#taken!.release()
        else await this.#taken!.release({ status: ending ?? 'failed', ...(await notBegun(kernel, this.timeline)) })
        throw error
      })
      await this.#taken.release(report.status === 'cancelled' ? { status: 'cancelled' } : {})
      this.#endedAs = report.status
      return report
    } catch (error) {
      const ending = this.#endedBy(error)
      if (ending !== null) {
        this.#endedAs = ending
        return this.#report(ending)
      }
      this.#isNotReady(error)
      throw error
    } finally {
      this.#isEnded = true
      if (liveRuns(this.#engine).get(this.timeline) === seen) liveRuns(this.#engine).delete(this.timeline)
      this.#isNotReady(new RepriseError('CLOSED', `${this.timeline} has ended`))
      this.#checkpoints?.end(new RepriseError('CLOSED', `${this.timeline} has ended`))
      signal?.removeEventListener('abort', onAbort)
      offBusy()
      forget()
    }
  }

  /** Whether records were read since the last call. */
  #hasMoved(): boolean {
    const { records } = this.status()
    const before = this.#seenRecords
    this.#seenRecords = records
    return records !== before
  }

  /** The requested ending, if it is the reason for the end; null: the run failed. */
  #endedBy(error: unknown): Ending | null {
    return isReprise(error, 'ABORTED', 'CANCELLED') ? (this.#stopping?.ending ?? null) : null
  }

  /** Runs the pipeline; after the death of a thread, it resumes from the newest checkpoint with other threads. */
  async #runRestarting(taken: StateTimeline): Promise<PipelineReport> {
    let { from } = this.#options
    for (let deaths = 1; ; deaths++) {
      const before = this.#checkpoints
      try {
        return await this.#runTaken(taken, from)
      } catch (error) {
        const made = this.#checkpoints === before ? null : (this.#checkpoints?.made ?? 0)
        if (!(error instanceof ThreadDied) || this.#stopping || taken.broken || (made === 0 && deaths > deathsMax))
          throw error
        if (made) deaths = 0
        // A checkpoint of this run is newer than the requested one.
        if (made) from = undefined
        this.#engine.events.emit('problem', { where: this.timeline, error })
        this.#checkpoints?.end(
          new RepriseError('RUN_FAILED', `${this.timeline}: a thread ended; it resumes from its checkpoint`),
        )
        this.#abort = new AbortController()
      }
    }
  }

  async #runTaken(taken: StateTimeline, from: ResolvedPipelineOptions['from']): Promise<PipelineReport> {
    const { kernel } = this.#engine
    const { policy, changes } = this.#options
    const [head] = await kernel.store.head([taken.id])
    this.#isShared = head?.attributes[sharedAttribute] === true
    if (this.#isShared) throw sharedError(taken.id)
    const timing = new CheckpointTiming(kernel.clock, policy, head?.attributes ?? {}, () => kernel.worker.now())
    const askedMs = kernel.clock.elapsed()
    const candidate = await chooseCheckpoint(kernel, taken, from ?? null)
    const openMs = kernel.clock.elapsed() - askedMs
    this.#restored = candidate?.state ?? null
    if (candidate?.state.stage === 'done' && from === undefined) {
      await commitLast(this.#sinksOf(null), candidate.state)
      this.#isReady()
      return this.#reportOf('completed', candidate.state, candidate.record.id)
    }
    const names = candidate && matchNames(this.#graph, candidate.state, changes)
    const storedAs = (name: string) => names?.get(name) ?? name
    const isKnown = (name: string) => names?.get(name) !== null
    const traced = tracePipeline(kernel, {
      ...{ timeline: this.timeline, name: this.name, callerTrace: this.#options.callerTrace },
      ...{ state: candidate?.state ?? null, isFrom: from !== undefined },
    })
    this.#trace = traced.run
    const scale = scaleOf(this.#options, candidate?.state ?? null)
    const origins = await originsOf(kernel, this.#graph, head, taken.id)
    const plan = stagePlanOf(this.name, this.#graph, { scale, threads: this.#options.threads, origins })
    const writers = await openSinks(this.#sinksOf(origins), taken, candidate?.state ?? null, { storedAs, isKnown })
    const readers = new Map<string, SourceReader<unknown>>()
    let resources: ReadonlyMap<string, OperatorResource> = new Map()
    let stages: Stages | null = null
    try {
      resources = await this.#graph.open(this.#engine)
      stages = plan && (await this.#openStages(plan, scale, this.#restored))
      const flow = this.#flowOf(writers, timing, { scale, resources, trace: traced.run, origins, stages })
      const filledMs = kernel.clock.elapsed()
      const restored = await fillTables(kernel, taken, candidate, flow, { storedAs, isKnown })
      timing.recovered({
        ...{ openMs: candidate && openMs, entries: 0, replayMs: null },
        restore: candidate && { ms: kernel.clock.elapsed() - filledMs, bytes: candidate.record.totalBytes },
        ageMs: kernel.worker.now() - (candidate?.record.createdAt ?? kernel.worker.now()),
      })
      const positions = this.#positionsIn(this.#restored, { storedAs, isKnown })
      await this.#openSources(readers, positions, origins)
      await stages?.start()
      flow.start(readers, positions)
      const checkpoints = this.#checkpointsOf(candidate, {
        ...{ taken, flow, writers, timing, trace: traced.run },
        restored: { ...restored, state: { ...restored.state, ...traced.kept } },
      })
      this.#flow = flow
      this.#checkpoints = checkpoints
      const cursor = flow.cursor(positions)
      const { attributes = {} } = this.#options
      return await this.#runFlow(taken, flow, checkpoints, timing, {
        status: 'running',
        attributes: { ...attributes, ...namesNoted(head) },
        ...(cursor !== null && { cursors: { [taken.id]: cursor } }),
      })
    } finally {
      this.#abort.abort(new RepriseError('ABORTED', `${this.timeline} has ended`))
      for (const resource of resources.values()) resource.close()
      await stages?.close()
      await closeAll(this.#engine, this.timeline, { source: readers, sink: writers })
    }
  }

  async #openStages(plan: StagePlan, scale: Scale, restored: PipelineState | null): Promise<Stages> {
    const { module } = this.#options
    const of = { name: this.name, timeline: this.timeline, graph: this.#graph, module: module!, plan, scale }
    return await openStages(this.#engine, { ...of, lastCheckpoint: restored?.checkpoint ?? 0 })
  }

  #positionsIn(restored: PipelineState | null, names: Parameters<typeof fillTables>[4]): Positions {
    const positions: Positions = new Map()
    for (const { name } of this.#graph.sources) {
      const stored = names.isKnown(name) ? restored?.sources[names.storedAs(name)] : undefined
      if (stored) positions.set(name, new Map(stored))
    }
    return positions
  }

  #flowOf(
    writers: ConstructorParameters<typeof Flow>[1],
    timing: CheckpointTiming,
    parts: Pick<ConstructorParameters<typeof Flow>[2], 'scale' | 'resources' | 'trace' | 'origins' | 'stages'>,
  ): Flow {
    const { clock, random } = this.#engine
    const trigger = new CheckpointTrigger(clock, this.#options.policy, timing)
    return new Flow(this.#graph, writers, {
      pipeline: this.timeline,
      lettersMax: this.#options.lettersMax,
      ...{ clock, random, neighbours: neighboursOf(this.#engine), ...parts },
      onRecords: (count) => {
        if (this.#flow && this.#checkpoints) trigger.onRecords(this.#flow, this.#checkpoints, count)
      },
    })
  }

  /** `candidate`: the checkpoint that the pipeline resumes from. */
  #checkpointsOf(
    candidate: Candidate | null,
    parts: Pick<
      ConstructorParameters<typeof Checkpoints>[0],
      'taken' | 'flow' | 'writers' | 'timing' | 'trace' | 'restored'
    >,
  ): Checkpoints {
    return new Checkpoints({
      leftBy: candidate && isLeftBy(candidate) ? candidate.record.id : null,
      kernel: this.#engine.kernel,
      graph: this.#graph,
      ...parts,
      neighbours: neighboursOf(this.#engine),
      lastId: this.#checkpoints?.lastId ?? 0,
      timeoutMs: this.#options.timeoutMs,
      noted: this.#options.noted,
    })
  }

  /** Opens the sources at these positions. The readers that are open are in `readers`, also if another cannot be opened. */
  async #openSources(
    readers: Map<string, SourceReader<unknown>>,
    positions: Positions,
    origins: Awaited<ReturnType<typeof originsOf>>,
  ): Promise<void> {
    for (const { name, source } of this.#graph.sources) {
      const context = {
        ...{ engine: this.#engine, pipeline: this.timeline, name },
        ...{ signal: this.#abort.signal, partitions: this.#partitions },
      }
      const opening = source.open(positions.get(name) ?? null, context)
      const reader = await openedUnlessAborted(opening, this.#sinksOf(origins), `opening the source ${name}`)
      readers.set(name, origins?.reader(name, reader) ?? reader)
    }
  }

  /** Writes that the pipeline runs, and runs it: it reads its mail and reports failing checkpoints until it ends. */
  async #runFlow(
    taken: StateTimeline,
    flow: Flow,
    checkpoints: Checkpoints,
    timing: CheckpointTiming,
    running: Parameters<StateTimeline['write']>[0],
  ): Promise<PipelineReport> {
    const { kernel } = this.#engine
    const stopTelling = kernel.worker.watchFailing(() => checkpoints.failing)
    let stopListening = async () => {}
    try {
      await taken.write(running)
      const applied = await applyEarlier(this.#engine, taken, flow)
      this.#isReady()
      stopListening = listenForMail(this.#engine, taken, this, applied, (error) => flow.fail(error))
      const stopWaiting = kernel.clock.after(steadyMs, () => kernel.failures.succeeded(this.timeline))
      if (this.#stopping) flow.halt()
      neighboursOf(this.#engine).flows += 1
      const report = await this.#flowToEnd(flow, checkpoints, timing).finally(() => {
        neighboursOf(this.#engine).flows -= 1
        stopWaiting()
      })
      const consume = [...applied]
      applied.clear()
      // The last checkpoint contains them; a cancelled run made no checkpoint.
      if (consume.length > 0 && report.status !== 'cancelled') await taken.write({ consume })
      return report
    } finally {
      flow.close()
      stopTelling()
      await stopListening()
      await checkpoints.settled()
      this.#stopLimit()
    }
  }

  async #flowToEnd(flow: Flow, checkpoints: Checkpoints, timing: CheckpointTiming): Promise<PipelineReport> {
    const isAtEnd = await flow.run().finally(() => this.#limitEnd(checkpoints))
    if (this.#stopping?.ending === 'cancelled') {
      await checkpoints.settled()
      return this.#report('cancelled')
    }
    const made = isAtEnd
      ? checkpoints.make('manual', { stage: 'done' })
      : checkpoints.make('savepoint', {
          stage: 'suspended',
          ...(this.#stopping?.label !== undefined && { label: this.#stopping.label }),
        })
    // The flow is stopped here, so its failure must be raced explicitly.
    const failing = flow.failed.wait().then((error) => Promise.reject(error))
    failing.catch(() => undefined)
    const stage = isAtEnd ? 'done' : 'suspended'
    const again = () => checkpoints.make(isAtEnd ? 'manual' : 'savepoint', { stage })
    await Promise.race([untilMade(this.#engine.clock, made, again), failing])
    const attributes = timing.releasing(this.#taken!.head.epoch)
    if (Object.keys(attributes).length > 0) await this.#taken!.write({ attributes })
    return this.#report(isAtEnd ? 'completed' : 'stopped')
  }

  /** Records no longer flow: the remaining work of checkpoints may take as long as one checkpoint. */
  #limitEnd(checkpoints: Checkpoints): void {
    this.#stopLimit = this.#engine.clock.after(
      this.#stopMs ?? this.#options.timeoutMs,
      () => checkpoints.giveUp(),
      true,
    )
  }

  /** The engine closes: makes a checkpoint, so that few records are read again, and releases the timeline. */
  async #leave(): Promise<void> {
    if (this.#isEnded) return
    if (this.#flow) await this.stop().catch(() => undefined)
    else await this.cancel().catch(() => undefined)
  }

  #sinksOf(origins: SinksOf['origins']): SinksOf {
    return { engine: this.#engine, graph: this.#graph, pipeline: this.timeline, signal: this.#abort.signal, origins }
  }

  #report(status: PipelineReport['status']): PipelineReport {
    return this.#reportOf(status, this.#checkpoints?.state ?? this.#restored, this.#checkpoints?.baseId ?? null)
  }

  #reportOf(status: PipelineReport['status'], state: PipelineState | null, checkpoint: string | null): PipelineReport {
    const { records = 0, letters = 0 } = state ?? {}
    return { status, records, deadLetters: letters, coordinate: this.#taken?.coordinate ?? null, checkpoint }
  }
}
