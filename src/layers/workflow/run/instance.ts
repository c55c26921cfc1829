// One run in memory: it replays its code against history, executes the code's commands, records their outcomes, and
// leaves memory as soon as it only waits. A problem with its ownership ends the instance, not the run. It connects the
// parts of a run; each part declares which others it needs (docs/decisions/workflow-house.md).

import type { MessageId, TimelineId } from '../../../core/coordinate.ts'
import { isReprise, RepriseError } from '../../../core/errors.ts'
import type { Clock, Message, Sql } from '../../../core/store/ports.ts'
import type { RunTrace } from '../../../engine/base/tracing.ts'
import type { Entry } from '../../../engine/history/history.ts'
import type { Host } from '../../../engine/host/host.ts'
import type { Kernel } from '../../../engine/storage/kernel.ts'
import type { NewEntry } from '../../../engine/writing/timeline.ts'
import type { CommitExtras } from '../../../engine/writing/writer.ts'
import { Latch } from '../../../lib/waiting.ts'
import type { ChildHost } from '../commands/children.ts'
import { Queries } from '../commands/queries.ts'
import { Saga, type SagaRun } from '../commands/saga.ts'
import { type ResultsTable, recoverSqlResults, SqlResults } from '../commands/transaction.ts'
import { Signals } from '../commands/waits.ts'
import type { AnyWorkflow } from '../context.ts'
import { cancelledError } from '../history/failure.ts'
import type { ClaimHost } from '../history/inherited.ts'
import { itemsOf } from '../history/journal.ts'
import { itemOf, noCommand, own, type RunState } from '../history/state.ts'
import { Alarms } from './alarms.ts'
import type { Attempt } from './attempt.ts'
import { type BoundRun, contextOf } from './bind.ts'
import type { Command } from './command.ts'
import { Ending, type EndingRun, type Outcome } from './ending.ts'
import { Execution } from './execution.ts'
import { type ExecutedRun, Hooks } from './hooks.ts'
import { keyOf } from './key.ts'
import { Mail, type MailedRun } from './mail.ts'
import type { WatchedRun } from './mail-watch.ts'
import { type RecordedRun, Recorder } from './recorder.ts'
import { Residency, type ResidentRun } from './residency.ts'
import type { RunTimeline } from './run-timeline.ts'
import { enterScope, leaveScope, stepName } from './scope.ts'
import { Work, type Working } from './work.ts'

/** The reason why an instance left memory. */
export type Left =
  | { readonly because: 'ended' | 'waiting' | 'closed' }
  | { readonly because: 'lost' | 'diverged' | 'broken'; readonly error: unknown }

/** The number of entries between checkpoints at loop boundaries, unless the workflow sets a policy. */
const loopCheckpointEvery = 1000
/** A call that takes longer than this has its intent recorded. */
const slowMs = 1000

/** The parts of the process's workflow host that runs in memory use. */
export interface InstanceHost extends ChildHost, ClaimHost {
  readonly engine: Host
  readonly kernel: Kernel
  /** The error for writes through a released handle. */
  readonly letGo: RepriseError
  /** Counts the calls to the outside. */
  callsStarted: number
  readonly results: ResultsTable
  /** Whether the run has mail now. */
  hasMail(timeline: TimelineId): Promise<boolean>
  /** Reports that a run may have mail. */
  poke(timeline: string): void
  /** Notifies the watchers of a run. */
  notify(timeline: string): void
  /** Called by an instance that has left memory. */
  left(instance: Instance, left: Left): void
}

/** The interfaces of all parts of a run. */
type Parts = BoundRun & EndingRun & ExecutedRun & MailedRun & RecordedRun & ResidentRun & SagaRun & WatchedRun

type Draft = Omit<NewEntry, 'time'>

/** Entries after which the code runs from its start again. */
const restarts = new Set(['continued', 'rolled', 'rollback', 'undo', 'restored'])

export class Instance implements Parts {
  readonly id: string
  readonly host: InstanceHost
  readonly kernel: Kernel
  readonly clock: Clock
  readonly definition: AnyWorkflow
  readonly open: RunTimeline
  readonly isDry: boolean
  readonly alarms: Alarms
  readonly mail: Mail
  readonly queries: Queries
  readonly sqlResults = new SqlResults()
  readonly attempts = new Map<string, Attempt>()
  readonly trace: RunTrace | null
  readonly recorder: Recorder
  readonly work: Work
  readonly residency: Residency
  signals!: Signals
  saga!: Saga
  ending: Ending
  execution!: Execution // Undefined until `begin`.
  /** No step is called before the mail was read: the run may be cancelled, or past its deadline. */
  isLooking = false
  isUntouched = false
  readonly #hooks: Hooks
  readonly #loaded = new Latch()
  readonly #replayed = new Latch()
  readonly #left = new Latch<Left>()
  #stop: AbortController | null = null
  #unwatch: () => void
  #lastCheckpointSeq: number

  constructor(host: InstanceHost, definition: AnyWorkflow, open: RunTimeline, isDry = false) {
    this.host = host
    this.kernel = host.kernel
    this.clock = host.kernel.clock
    this.definition = definition
    this.open = open
    this.isDry = isDry
    this.id = open.id.slice(definition.prefix.length)
    this.alarms = new Alarms(
      this.clock,
      () => this.now(),
      () => this.mail.alarmed(),
    )
    this.work = new Work(
      () => {
        if (!this.isLeaving) this.execution?.wake()
      },
      (error) => this.failed(error),
    )
    this.mail = new Mail(this)
    this.queries = new Queries(this)
    this.recorder = new Recorder(this)
    this.residency = new Residency(this)
    this.ending = new Ending(this)
    this.#hooks = new Hooks(this)
    this.#lastCheckpointSeq = open.recovery.checkpoint?.seq ?? 0
    this.#unwatch = open.watch((entries) => this.#written(entries))
    this.trace = isDry ? null : this.#traced()
  }

  #traced(): RunTrace | null {
    const { open, state, definition, kernel } = this
    const trace = state.started?.trace
    const of = { timeline: open.id, kind: 'workflow', name: definition.name, trace, isResumed: open.seq > 1 }
    return kernel.tracing?.run({ ...of, isFork: open.isFork }) ?? null
  }

  get state(): RunState {
    return this.open.state
  }

  /** Fires when this process must release the run. Created on first access: most runs need none. */
  get stopSignal(): AbortSignal {
    this.#stop ??= new AbortController()
    return this.#stop.signal
  }

  /** Rejects when this process must release the run. Never resolves. */
  get leaving(): Promise<never> {
    return new Promise((_, reject) => {
      const { stopSignal } = this
      if (stopSignal.aborted) reject(stopSignal.reason)
      else stopSignal.addEventListener('abort', () => reject(stopSignal.reason), { once: true })
    })
  }

  get isLeaving(): boolean {
    return this.#left.isSet
  }

  get isPaused(): boolean {
    return this.residency.isPaused
  }

  get isCalling(): boolean {
    return this.attempts.size > 0
  }

  /** The code waits, and no work is under way for it. */
  get isAsleep(): boolean {
    const { execution } = this
    return execution?.isQuiet === true && !execution.isOver && this.work.isIdle && !this.isCalling
  }

  /** Resolves when the run has left memory. */
  get left(): Promise<Left> {
    return this.#left.wait()
  }

  /** Set if the run was cancelled or its deadline passed. */
  get cancelled(): RepriseError | null {
    return this.#hooks.cancelled
  }

  /** Time of the database that stores this run. */
  now(): number {
    return this.kernel.worker.now(this.open.id)
  }

  chance(): number {
    return this.kernel.random.number()
  }

  keyOf(command: Command, state = this.state): string {
    return state === this.state ? command.key : (command.keyUsed ?? keyOf(state, command, this.kernel.hash))
  }

  cancelError(): RepriseError {
    return this.cancelled ?? cancelledError('cancelled')
  }

  /** Loads the data that a replay needs beside history, then begins. */
  load(): void {
    const sqlResults = recoverSqlResults(this)
    if (sqlResults === null) this.#beginLoaded()
    else
      sqlResults.then(
        () => this.#beginLoaded(),
        (error) => this.leave({ because: 'broken', error }),
      )
  }

  #beginLoaded(): void {
    this.#loaded.set()
    try {
      if (this.state.isAdmitted) this.begin()
      else this.spawn(() => this.#waitForTurn())
    } catch (error) {
      this.leave({ because: 'broken', error })
    }
  }

  /** True if all of history was delivered and the code waits, or this instance is leaving. */
  get isAtRest(): boolean {
    if (this.isLeaving) return true
    return this.#loaded.isSet && (!this.execution || this.execution.isQuiet)
  }

  /** Resolves when `isAtRest` is true. */
  async atRest(): Promise<void> {
    while (!this.isAtRest) {
      if (!this.#loaded.isSet) await this.#loaded.wait()
      else await this.execution.whenQuiet()
    }
  }

  /** Reads the mail first: the run was out of memory, and earlier facts come before its next commands. */
  look(): void {
    this.isLooking = true
    this.spawn(async () => {
      await this.mail.read()
      this.isLooking = false
      if (!this.isLeaving) leaveScope(() => this.execution?.startAll())
    })
  }

  /** The queue has not admitted the run yet: its mail is recorded, and the run is released again. */
  async #waitForTurn(): Promise<void> {
    await this.mail.read()
    if (this.execution || this.isLeaving) return
    await this.release('waiting', [], { wakeup: null, status: 'queued' })
  }

  readMail(): void {
    this.spawn(() => this.mail.read())
  }

  /**
   * A failure of the store or of the ownership ends this instance; any other failure is the run's own and sets it
   * aside.
   */
  failed(error: unknown): void {
    this.leave({ because: isReprise(error) && error.code !== 'BUG' ? 'lost' : 'broken', error })
  }

  readMessage(message: Message): unknown {
    return this.host.engine.openMessage(message)
  }

  /** Runs a read through the user's SQL, without an entry. */
  async readSql<T>(call: (sql: Sql) => Promise<T> | T): Promise<T> {
    return (await this.open.write([], { userSql: call })).sqlResult as T
  }

  /** Resolves when all of history is delivered and everything that could run has run. */
  get replayed(): Promise<void> {
    return this.#replayed.wait()
  }

  wasReplayed(): void {
    this.#replayed.set()
  }

  /** Replays from history and continues. Called again when the run starts over. */
  begin(): void {
    const { state } = this
    if (this.execution) this.isUntouched = false
    this.execution?.stop()
    this.alarms.clear()
    this.signals = new Signals(this)
    this.saga = new Saga(this)
    this.queries.clear()
    this.ending = new Ending(this)
    this.#hooks.begin()
    const execution = new Execution(this.#hooks, itemsOf(state.journal), state.startedAt, state.input)
    this.execution = execution
    execution.begin(() => {
      const settle = (outcome: Outcome) => {
        // The run was blamed and is over already: the outcome of its code no longer counts.
        if (execution.isStopped || execution.isOver) return
        if (execution.blameIfLate()) return
        this.ending.codeEnded(execution.blamed && !this.isDry ? { error: execution.blamed } : outcome)
        leaveScope(() => execution.over())
      }
      enterScope(execution.root, async () => await this.definition.run(contextOf(this, execution.root), state.input))
        .then(
          (value) => settle({ value }),
          (error) => settle({ error }),
        )
        .catch((error) => this.failed(error))
    })
  }

  /** Starts work on behalf of this run, which stays in memory until the work is done. */
  spawn(work: () => Working): void {
    if (this.isLeaving || this.isDry) return
    this.residency.stay()
    this.work.during(work)
  }

  /** Calls a user's function outside of workflow code and of steps. */
  async callOutside<T>(call: () => T): Promise<Awaited<T>> {
    return await Promise.race([leaveScope(call) as Awaited<T>, this.leaving])
  }

  /** Writes one entry and resolves once it is durable. `#written` delivers it to the code. */
  record(type: string, data: unknown, along?: CommitExtras): Promise<void> {
    return this.recorder.record(type, data, along) as Promise<void>
  }

  write(entries: readonly Draft[], along?: CommitExtras): Promise<unknown> {
    return this.recorder.write(entries, along)
  }

  /** Records the intent of slow calls, so that people see them and new code must issue them again. */
  noteSlow(): void {
    const since = this.clock.elapsed() - slowMs
    for (const [id, attempt] of this.attempts) {
      if (attempt.isNoted || attempt.startedAt > since) continue
      attempt.isNoted = true
      if (!own(this.state.open, id, noCommand).began) {
        const { keyUsed } = attempt
        this.spawn(() => this.record('began', { id, ...(keyUsed !== null && { key: keyUsed }) }))
      }
    }
  }

  checkpointIfDue(): void {
    if (this.definition.options.checkpoint) return
    if (this.open.seq - this.#lastCheckpointSeq >= loopCheckpointEvery) this.#checkpoint('loop')
  }

  #checkpoint(trigger: string): void {
    if (this.isDry || this.isLeaving) return
    this.#lastCheckpointSeq = this.open.seq
    leaveScope(() => this.open.checkpoint({ trigger })).catch((error) => {
      if (!this.isLeaving) this.kernel.events.emit('problem', { where: this.open.id, error })
    })
  }

  terminate(entry: Draft, consume: readonly MessageId[]): Promise<void> {
    return this.ending.terminate(entry, { consume })
  }

  /** The last entries are written with the release: this handle can write nothing after it. */
  release(because: 'ended' | 'waiting', entries: readonly Draft[], along: CommitExtras): Promise<void> {
    return this.write(entries, { ...along, release: true }).then(() => {
      this.open.break(this.host.letGo)
      this.leave({ because })
      if (typeof along.wakeup === 'number') this.host.engine.dispatcher.expect(along.wakeup, this.open.id)
    })
  }

  /**
   * Ends this instance; this process no longer executes the run. 'lost': another owner, an unavailable store, or a
   * closed engine.
   */
  leave(left: Left): void {
    if (this.isLeaving) return
    this.#left.set(left)
    this.residency.stay()
    this.#unwatch()
    this.alarms.clear()
    this.execution?.stop()
    this.#loaded.set()
    if (this.#stop || this.isCalling) {
      const error = new RepriseError('ABORTED', `${this.open.id} leaves this process (${left.because})`)
      this.#stop?.abort(error)
      for (const attempt of this.attempts.values()) attempt.abort(error)
    }
    this.trace?.left(left.because)
    if (!this.isDry) this.host.left(this, left)
  }

  #written(entries: readonly Entry[]): void {
    // The code has not begun, or is about to start over: the state includes these entries already.
    if (!this.execution) {
      if (this.#loaded.isSet && this.state.isAdmitted) leaveScope(() => this.begin())
      return
    }
    if (entries.some(({ type }) => restarts.has(type))) {
      leaveScope(() => this.begin())
      return
    }
    const { on } = this.definition.options.checkpoint ?? {}
    for (const entry of entries) {
      const item = itemOf(entry)
      if (on && item?.kind === 'done' && on.includes(stepName(item.id))) this.#checkpoint('event')
      if (!item) this.#noted(entry)
      else if (!this.recorder.wasDelivered(entry)) this.execution.offer(item)
    }
  }

  /** Handles entries that are not outcomes of commands but change the run's next actions. */
  #noted(entry: Entry): void {
    switch (entry.type) {
      case 'settled':
        for (const command of this.execution.open) if (command.id === (entry.data as { id: string }).id) command.start()
        return
      case 'updated':
        this.host.notify(this.open.id)
        return
      case 'resumed':
        leaveScope(() => this.execution.startAll())
        this.execution.wake()
        return
      case 'undone':
        this.execution.wake()
    }
  }
}
