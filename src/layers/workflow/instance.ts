// One run in memory: it replays its code against history, does what the code asks for, records what came of it, and
// leaves memory as soon as all it does is wait. Whatever goes wrong with its ownership ends the instance, not the run.

import { RepriseError } from '../../core/errors.ts'
import type { Sql } from '../../core/ports.ts'
import type { Along } from '../../engine/commit/writer.ts'
import type { Kernel } from '../../engine/kernel.ts'
import type { Entry } from '../../engine/recovery/history.ts'
import type { NewEntry, OpenTimeline } from '../../engine/timeline.ts'
import { Alarms } from './alarms.ts'
import type { Attempt } from './attempt.ts'
import { contextOf } from './bind.ts'
import type { AnyWorkflow } from './definition.ts'
import { Execution } from './execution.ts'
import { cancelledError } from './failure.ts'
import { Hooks } from './hooks.ts'
import type { Host } from './host.ts'
import { itemsOf } from './journal.ts'
import { keyOf } from './key.ts'
import { Mail } from './mail.ts'
import { Queries } from './queries.ts'
import { Recorder } from './recorder.ts'
import { Saga } from './saga.ts'
import { enterScope, leaveScope, stepName } from './scope.ts'
import { itemOf, noCommand, own, type RunState } from './state.ts'
import { Stay, type Working } from './stay.ts'
import { Rides, recoverRides } from './transaction.ts'
import { Signals } from './waits.ts'

export type Outcome = { readonly value: unknown } | { readonly error: unknown }

/** Why an instance left memory. */
export type Left =
  | { readonly because: 'ended' | 'waiting' | 'closed' }
  | { readonly because: 'lost' | 'diverged' | 'broken'; readonly error: unknown }

/** An intent is written for a call that takes longer than this. */
const slowMs = 1000

/** What an instance needs of its timeline: a real one, or history alone when it is only read. */
export type RunTimeline = Pick<
  OpenTimeline<RunState>,
  'id' | 'state' | 'seq' | 'broken' | 'recovery' | 'watch' | 'ask' | 'write' | 'mail' | 'checkpoint' | 'shut' | 'break'
>

/** Entries after which the code runs from its start again. */
const restarts = new Set(['continued', 'rolled', 'rollback', 'undo', 'restored'])

export class Instance {
  readonly id: string
  readonly host: Host
  readonly kernel: Kernel
  readonly definition: AnyWorkflow
  readonly open: RunTimeline
  /** Only replayed: nothing is started, nothing is written. */
  readonly isDry: boolean
  readonly alarms: Alarms
  readonly mail: Mail
  readonly queries: Queries
  readonly rides = new Rides()
  readonly attempts = new Map<string, Attempt>()
  readonly recorder: Recorder
  readonly stay: Stay
  signals!: Signals
  saga!: Saga
  execution!: Execution // Undefined until begun.
  outcome: Outcome | null = null
  isConcluding = false
  /** Its end is being written. */
  isEnding = false
  /** Nothing is called before the mail was read: it may be cancelled, or its time may be up. */
  isLooking = false
  readonly #hooks: Hooks
  #left: Left | null = null
  #onLeft: ((left: Left) => void) | null = null
  #isReplayed = false
  #onReplayed: (() => void) | null = null
  #stop: AbortController | null = null
  #unwatch: () => void
  #lastCheckpointSeq: number
  #isLoaded = false
  #onLoaded: (() => void)[] = []

  constructor(host: Host, definition: AnyWorkflow, open: RunTimeline, isDry = false) {
    this.host = host
    this.kernel = host.kernel
    this.definition = definition
    this.open = open
    this.isDry = isDry
    this.id = open.id.slice(definition.prefix.length)
    this.alarms = new Alarms(
      this.kernel.clock,
      () => this.now(),
      () => this.mail.alarmed(),
    )
    this.mail = new Mail(this)
    this.queries = new Queries(this)
    this.recorder = new Recorder(this)
    this.stay = new Stay(this)
    this.#hooks = new Hooks(this)
    this.#lastCheckpointSeq = open.recovery.checkpoint?.seq ?? 0
    this.#unwatch = open.watch((entries) => this.#written(entries))
  }

  get state(): RunState {
    return this.open.state
  }

  /** Fires when this process must let go of the run. Made when somebody asks for it: most runs need none. */
  get stopSignal(): AbortSignal {
    this.#stop ??= new AbortController()
    return this.#stop.signal
  }

  /** Never resolves; rejects when this process must let go of the run. */
  get leaving(): Promise<never> {
    return new Promise((_, reject) => {
      const { stopSignal } = this
      if (stopSignal.aborted) reject(stopSignal.reason)
      else stopSignal.addEventListener('abort', () => reject(stopSignal.reason), { once: true })
    })
  }

  get isLeaving(): boolean {
    return this.#left !== null
  }

  /** The code waits, and nothing works for it. */
  get isAsleep(): boolean {
    return this.execution.isQuiet && !this.execution.isOver && this.stay.isIdle && this.attempts.size === 0
  }

  /** Resolves when it has left memory. */
  get left(): Promise<Left> {
    return new Promise((resolve) => {
      const before = this.#onLeft
      if (this.#left) resolve(this.#left)
      else
        this.#onLeft = (left) => {
          before?.(left)
          resolve(left)
        }
    })
  }

  /** The run was cancelled or ran out of time, and this is what its code is told. */
  get cancelled(): RepriseError | null {
    return this.#hooks.cancelled
  }

  /** Database time. */
  now(): number {
    return this.kernel.worker.now()
  }

  chance(): number {
    return this.kernel.random.number()
  }

  keyOf(id: string): string {
    return keyOf(this.state, id, this.kernel.hash)
  }

  cancelError(): RepriseError {
    return this.cancelled ?? cancelledError('cancelled')
  }

  /** Makes ready what a replay needs from outside of history, then begins. */
  load(): void {
    const rides = recoverRides(this)
    if (rides === null) this.#loaded()
    else
      rides.then(
        () => this.#loaded(),
        (error) => this.leave({ because: 'broken', error }),
      )
  }

  #loaded(): void {
    this.#isLoaded = true
    for (const call of this.#onLoaded.splice(0)) call()
    try {
      if (this.state.isAdmitted) this.begin()
      else this.spawn(() => this.#waitForTurn())
    } catch (error) {
      this.leave({ because: 'broken', error })
    }
  }

  /** Resolves when all of history was delivered and the code waits, or this instance leaves. */
  async atRest(): Promise<void> {
    while (!this.isLeaving) {
      if (!this.#isLoaded) await new Promise<void>((resolve) => this.#onLoaded.push(resolve))
      else if (!this.execution || this.execution.isQuiet) return
      else await this.execution.whenQuiet()
    }
  }

  /** It was away: what happened meanwhile comes before what it does next. */
  look(): void {
    this.isLooking = true
    this.spawn(async () => {
      await this.mail.read()
      this.isLooking = false
      if (!this.isLeaving) leaveScope(() => this.execution?.startAll())
    })
  }

  /** Its queue has not let it in yet: whatever the mail says is noted, and the run goes back to wait. */
  async #waitForTurn(): Promise<void> {
    await this.mail.read()
    if (this.execution || this.isLeaving) return
    await this.write([], { release: true, wakeup: null, status: 'queued' })
    this.letGoOf()
    this.leave({ because: 'waiting' })
  }

  /** Reads through the user's SQL, outside of any entry. */
  async readSql<T>(call: (sql: Sql) => Promise<T> | T): Promise<T> {
    return (await this.open.write([], { ride: call })).ridden as T
  }

  /** Resolves when history is used up and everything that could run has run. */
  get replayed(): Promise<void> {
    if (this.#isReplayed) return Promise.resolve()
    return new Promise((resolve) => {
      const before = this.#onReplayed
      this.#onReplayed = () => {
        before?.()
        resolve()
      }
    })
  }

  wasReplayed(): void {
    this.#isReplayed = true
    this.#onReplayed?.()
    this.#onReplayed = null
  }

  /** Replays from history and goes on. Also called again, when the run starts over. */
  begin(): void {
    const { state } = this
    this.execution?.stop()
    this.alarms.clear()
    this.signals = new Signals(this)
    this.saga = new Saga(this)
    this.queries.clear()
    this.outcome = null
    this.isConcluding = false
    this.isEnding = false
    this.#hooks.begin()
    const execution = new Execution(this.#hooks, itemsOf(state.journal), state.startedAt)
    this.execution = execution
    execution.begin(() => {
      const settle = (outcome: Outcome) => {
        // Over already: it was blamed, and what its code makes of that is not asked.
        if (execution.isStopped || execution.isOver) return
        if (execution.blameIfLate()) return
        this.outcome = execution.blamed && !this.isDry ? { error: execution.blamed } : outcome
        leaveScope(() => execution.over())
      }
      enterScope(
        execution.root,
        async () => await this.definition.run(contextOf(this, execution.root), state.input),
      ).then(
        (value) => settle({ value }),
        (error) => settle({ error }),
      )
    })
  }

  /** Work on behalf of this run: it stays in memory until that is done. */
  spawn(work: () => Working): void {
    if (!this.isLeaving && !this.isDry) this.stay.during(work)
  }

  /** The user's function outside of workflow code and of steps. */
  async callOutside<T>(call: () => T): Promise<Awaited<T>> {
    return await Promise.race([leaveScope(call) as Awaited<T>, this.leaving])
  }

  /** One entry, durable when it resolves. It is delivered to the code by `#written`. */
  record(type: string, data: unknown, along?: Along): Promise<void> {
    return this.recorder.record(type, data, along) as Promise<void>
  }

  write(entries: readonly Omit<NewEntry, 'time'>[], along?: Along): Promise<unknown> {
    return this.recorder.write(entries, along)
  }

  /** Calls that take long: their intent is recorded, for people to see and for new code to be held to. */
  noteSlow(): void {
    const since = this.kernel.clock.elapsed() - slowMs
    for (const [id, attempt] of this.attempts) {
      if (attempt.isNoted || attempt.startedAt > since) continue
      attempt.isNoted = true
      if (!own(this.state.open, id, noCommand).began) this.spawn(() => this.record('began', { id }))
    }
  }

  checkpointIfDue(): void {
    const { checkpointEvery, checkpoint } = this.definition.options
    const every = checkpointEvery ?? (checkpoint ? Number.POSITIVE_INFINITY : 1000)
    if (this.open.seq - this.#lastCheckpointSeq >= every) this.#checkpoint('loop')
  }

  #checkpoint(trigger: string): void {
    if (this.isDry || this.isLeaving) return
    this.#lastCheckpointSeq = this.open.seq
    leaveScope(() => this.open.checkpoint({ trigger })).catch((error) => {
      if (!this.isLeaving) this.kernel.events.emit('problem', { where: this.open.id, error })
    })
  }

  /** Another owner, a store that does not answer, a closed engine: this instance must not go on. */
  lose(error: unknown): void {
    this.leave({ because: 'lost', error })
  }

  leave(left: Left): void {
    if (this.#left) return
    this.#left = left
    this.stay.end()
    this.#unwatch()
    this.alarms.clear()
    this.execution?.stop()
    for (const call of this.#onLoaded.splice(0)) call()
    if (this.#stop || this.attempts.size > 0) {
      const error = new RepriseError('ABORTED', `${this.open.id} leaves this process (${left.because})`)
      this.#stop?.abort(error)
      for (const attempt of this.attempts.values()) attempt.abort(error)
    }
    this.#onLeft?.(left)
    if (!this.isDry) this.host.left(this, left)
  }

  #written(entries: readonly Entry[]): void {
    // Not begun yet, or about to start over: the state has these entries already.
    if (!this.execution) {
      if (this.#isLoaded && this.state.isAdmitted) leaveScope(() => this.begin())
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
      if (item) {
        if (!this.recorder.wasDelivered(entry)) this.execution.offer(item)
      } else this.#noted(entry)
    }
  }

  /** Entries that are not outcomes of commands, yet change what this run has to do. */
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

  /** The last write released it: nothing more may be written through this handle. */
  letGoOf(): void {
    this.open.break(this.host.letGo)
  }
}
