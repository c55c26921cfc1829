// One timeline of a job, owned by this process: its finished keys, the items that completed and wait to become durable,
// and how far the source is settled. Everything that completes in one moment goes into one entry; an item keeps its slot
// until that entry is durable, so a crash repeats at most as many items as may be in flight.

import { toHex } from '../../core/coordinate.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import type { Attribute } from '../../core/ports.ts'
import { liveIdOf } from '../../core/scope.ts'
import type { Along } from '../../engine/commit/writer.ts'
import type { Kernel } from '../../engine/kernel.ts'
import type { NewEntry, OpenTimeline } from '../../engine/timeline.ts'
import { versionPrint } from './digest.ts'
import { type Cursor, type DeadData, entry, toFailure } from './entries.ts'
import type { FinishedSet } from './finished.ts'
import { Flight } from './flight.ts'
import { finishedSet, type JobState } from './state.ts'
import type { Ride, Task } from './task.ts'

/** A place in the source: passed when everything read before it is settled. */
export interface Mark {
  readonly cursor: Cursor
  outstanding: number
}

export interface ShardHooks<T> {
  /** The record that these items are done is durable. */
  onDone(tasks: readonly Task<T>[]): void
  /** Its result could not be kept, or its SQL failed. */
  onRefused(task: Task<T>, error: unknown): void
  /** Nothing more can be written: another owner, or a store that does not answer. */
  onLost(error: unknown): void
}

const keysPerEntry = 1000
const attributesEveryMs = 1000
const moveEveryMs = 1000
/** An entry may hold a thousand keys, so entries alone do not say how long a replay takes. Replays in less than a second. */
const keysPerCheckpoint = 100_000

export class Shard<T> {
  readonly index: number
  readonly open: OpenTimeline<JobState>
  readonly finished: FinishedSet
  readonly inFlight = new Flight<Task<T>>()
  /** Items right after a crash are noted before they are tried. */
  careful = 0
  /** No new items: it is being handed over or stopped. */
  isLeaving = false
  readonly #kernel: Kernel
  readonly #hooks: ShardHooks<T>
  readonly #keepsResults: boolean
  readonly #cursorName: string | null
  #completed: Task<T>[] = []
  #isWriting = false
  #flushed: (() => void)[] = []
  #marks: Mark[] = []
  #tip: Mark
  #cursorWritten: Cursor | null
  #attributesAt = Number.NEGATIVE_INFINITY
  #movedAt: number
  #lost: unknown = null
  #keysSince = 0

  constructor(
    kernel: Kernel,
    open: OpenTimeline<JobState>,
    index: number,
    settings: { readonly keepsResults: boolean; readonly cursorName: string | null },
    hooks: ShardHooks<T>,
  ) {
    this.#kernel = kernel
    this.open = open
    this.index = index
    this.#keepsResults = settings.keepsResults
    this.#cursorName = settings.cursorName
    this.#hooks = hooks
    this.finished = finishedSet(open.state)
    this.#cursorWritten = open.state.cursor
    this.#tip = { cursor: open.state.cursor ?? { position: undefined, ordinal: 0 }, outstanding: 0 }
    this.#movedAt = kernel.clock.elapsed()
  }

  get state(): JobState {
    return this.open.state
  }

  get lost(): unknown {
    return this.#lost
  }

  get isIdle(): boolean {
    return this.inFlight.size === 0
  }

  isFinished(key: string, print: string, version: string): boolean {
    if (this.state.forgets) return this.state.ahead.has(key)
    return this.finished.has(print, version === '' ? '' : versionPrint(version))
  }

  /** A new pass over the source begins at this cursor. */
  beginPass(start: Cursor | null): void {
    this.#marks = []
    this.#tip = { cursor: start ?? { position: undefined, ordinal: 0 }, outstanding: 0 }
    this.#cursorWritten = this.state.cursor
  }

  /** Items read from now on lie behind this mark. */
  get mark(): Mark {
    return this.#tip
  }

  /** The source reached a position. */
  passed(cursor: Cursor): void {
    // Items of a shard that is leaving are not taken any more, so its cursor must not go past them.
    if (this.isLeaving) return
    this.#marks.push(this.#tip)
    this.#tip = { cursor, outstanding: 0 }
  }

  take(task: Task<T>): void {
    this.inFlight.add(task)
    if (task.mark) task.mark.outstanding += 1
  }

  complete(task: Task<T>): void {
    this.#completed.push(task)
    if (!this.#isWriting) this.#schedule()
  }

  /** A failed attempt, durable when it resolves. */
  async recordFailure(task: Task<T>, error: unknown): Promise<void> {
    const { key, version, attempts, retryAt } = task
    const data = { key, attempts, error: toFailure(error), retryAt, ...(version && { version }) }
    await this.write([entry('failed', data)])
  }

  async bury(task: Task<T>, error: unknown): Promise<void> {
    const cursor = this.#reachedWith([task])
    const base = { key: task.key, attempts: task.attempts, error: toFailure(error), ...(cursor && { cursor }) }
    const versioned = task.version ? { ...base, version: task.version } : base
    const whole: DeadData = { ...versioned, item: task.item, hasItem: true }
    try {
      await this.write([entry('dead', whole)], this.#cursors(cursor))
    } catch (failure) {
      if (!isReprise(failure, 'UNSERIALIZABLE', 'LIMIT_EXCEEDED')) throw failure
      await this.write([entry('dead', { ...versioned, hasItem: false })], this.#cursors(cursor))
    }
    this.#settled([task], cursor)
  }

  /** Let go of a task that will not be settled here. */
  drop(task: Task<T>): void {
    this.inFlight.delete(task)
  }

  async begun(task: Task<T>): Promise<void> {
    await this.write([entry('begun', { keys: [task.key] })])
    task.crashes += 1
  }

  async write(entries: readonly NewEntry[], along: Along = {}): Promise<void> {
    try {
      await this.open.write(entries, along)
    } catch (error) {
      if (this.open.broken) this.#lose(error)
      throw error
    }
  }

  /** Everything completed so far is durable when it resolves, and so is the cursor it reaches. */
  async settle(): Promise<void> {
    while (!this.#lost && (this.#isWriting || this.#completed.length > 0)) {
      await new Promise<void>((resolve) => this.#flushed.push(resolve))
    }
    if (this.#lost) return
    const cursor = this.#reachedWith([])
    if (!cursor) return
    await this.write([entry('moved', { cursor })], this.#cursors(cursor))
    this.#settled([], cursor)
  }

  /** The source advanced over items that were done already: note it now and then. */
  noteMoves(): void {
    const now = this.#kernel.clock.elapsed()
    if (now - this.#movedAt < moveEveryMs || this.#completed.length > 0 || this.#lost) return
    this.#movedAt = now
    const cursor = this.#reachedWith([])
    if (!cursor) return
    this.write([entry('moved', { cursor })], this.#cursors(cursor)).then(
      () => this.#settled([], cursor),
      () => undefined,
    )
  }

  attributes(): Record<string, Attribute> {
    const { round, done, dead, shards } = this.state
    return { round, done, dead: dead.size, shards }
  }

  idempotencyKey(task: Task<T>): string {
    const text = JSON.stringify([liveIdOf(this.open.id), task.key, task.version])
    return toHex(this.#kernel.hash(new TextEncoder().encode(text))).slice(0, 32)
  }

  #schedule(): void {
    this.#isWriting = true
    this.#kernel.clock.soon(() => void this.#flush())
  }

  async #flush(): Promise<void> {
    try {
      while (this.#completed.length > 0 && !this.#lost) {
        await this.#writeDone(this.#nextBatch())
      }
      // Nothing more is on its way that could carry the cursor along.
      if (this.inFlight.size === 0) this.noteMoves()
    } finally {
      this.#isWriting = false
      for (const resolve of this.#flushed.splice(0)) resolve()
    }
  }

  /** Those with SQL of their own go first, and apart: if it fails, the others are not held up. */
  #nextBatch(): Task<T>[] {
    const all = this.#completed
    const isRiding = (task: Task<T>) => task.rides !== null
    if (!all.some(isRiding)) {
      this.#completed = []
      return all
    }
    this.#completed = all.filter((task) => !isRiding(task))
    return all.filter(isRiding)
  }

  async #writeDone(batch: readonly Task<T>[]): Promise<void> {
    const cursor = this.#reachedWith(batch)
    try {
      await this.write(this.#doneEntries(batch, cursor), { ...this.#along(batch), ...this.#cursors(cursor) })
    } catch (error) {
      if (this.#lost) return
      // One result that cannot be kept, or one failing SQL, must not hold up the others: each on its own.
      if (batch.length > 1) for (const task of batch) await this.#writeDone([task])
      else this.#hooks.onRefused(batch[0]!, isReprise(error, 'RIDER_FAILED') ? (error.cause ?? error) : error)
      return
    }
    this.#settled(batch, cursor)
    this.#hooks.onDone(batch)
    this.#checkpointAfter(batch.length)
  }

  #checkpointAfter(keys: number): void {
    this.#keysSince += keys
    if (this.#keysSince < keysPerCheckpoint) return
    this.#keysSince = 0
    this.open.checkpoint({ trigger: 'count' }).catch((error) => {
      if (!this.#lost) this.#kernel.events.emit('problem', { where: this.open.id, error })
    })
  }

  #doneEntries(batch: readonly Task<T>[], cursor: Cursor | null): NewEntry[] {
    const entries: NewEntry[] = []
    for (let at = 0; at < batch.length; at += keysPerEntry) {
      const part = batch.length <= keysPerEntry ? batch : batch.slice(at, at + keysPerEntry)
      const isLast = at + keysPerEntry >= batch.length
      const keys = part.map((task) => task.key)
      if (!this.state.forgets) {
        const prints = part.map((task) => task.print)
        this.finished.hint(keys, prints)
      }
      entries.push(
        entry('done', {
          keys,
          ...(part.some((task) => task.version !== '') && { versions: part.map((task) => task.version) }),
          ...(this.#keepsResults && { results: part.map((task) => task.result) }),
          ...(isLast && cursor && { cursor }),
        }),
      )
    }
    return entries
  }

  #along(batch: readonly Task<T>[]): Along {
    const now = this.#kernel.clock.elapsed()
    const rides: Ride[] = []
    for (const task of batch) if (task.rides) rides.push(...task.rides)
    const isDue = now - this.#attributesAt > attributesEveryMs
    if (isDue) this.#attributesAt = now
    return {
      ...(isDue && { attributes: { ...this.attributes(), done: this.state.done + batch.length } }),
      ...(rides.length > 0 && {
        ride: async (sql) => {
          for (const ride of rides) await ride(sql)
        },
      }),
    }
  }

  /** A named cursor moves in the same commit as what it stands for. */
  #cursors(cursor: Cursor | null): Along {
    return this.#cursorName !== null && cursor ? { cursors: { [this.#cursorName]: String(cursor.position) } } : {}
  }

  /** The furthest position with nothing unsettled before it once these are settled, if it is a new one. */
  #reachedWith(tasks: readonly Task<T>[]): Cursor | null {
    if (this.#marks.length === 0) return null
    for (const task of tasks) if (task.mark) task.mark.outstanding -= 1
    const first = this.#marks.find((mark) => mark.outstanding > 0) ?? this.#tip
    for (const task of tasks) if (task.mark) task.mark.outstanding += 1
    return first === this.#marks[0] || first.cursor === this.#cursorWritten ? null : first.cursor
  }

  /** Only now, when it is durable: another write under way must not build on what may yet fail. */
  #settled(tasks: readonly Task<T>[], cursor: Cursor | null): void {
    for (const task of tasks) {
      if (task.mark) task.mark.outstanding -= 1
      this.inFlight.delete(task)
    }
    if (!cursor) return
    this.#cursorWritten = cursor
    const at = [...this.#marks, this.#tip].findIndex((mark) => mark.cursor === cursor)
    if (at > 0) this.#marks.splice(0, at)
  }

  /** What it holds is of a copy of the store that is no longer up. */
  async abandon(error: unknown): Promise<void> {
    // Others may not find it open: they would go on with what it holds. That it cannot be released is to be expected.
    await this.open.shut().catch(() => undefined)
    this.#lose(error)
  }

  #lose(error: unknown): void {
    if (this.#lost) return
    this.#lost = error ?? new RepriseError('FENCED', `${this.open.id} was lost`)
    const stop = error instanceof Error ? error : new RepriseError('FENCED', `${this.open.id} was lost`)
    for (const task of this.inFlight.all()) task.abort(stop)
    for (const resolve of this.#flushed.splice(0)) resolve()
    this.#hooks.onLost(this.#lost)
  }
}
