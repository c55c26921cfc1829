// One timeline of a job, owned by this process: its finished keys, its items in flight, the settled source position,
// and the outcome of each item. It only calls back to report that another process took it over.

import { toHex } from '../../core/coordinate.ts'
import { isPassingStoreFailure, isReprise, RepriseError } from '../../core/errors.ts'
import { liveIdOf } from '../../core/history/scope.ts'
import { formerItemKey, intentKey } from '../../core/identity.ts'
import { growingPause } from '../../core/retry/pause.ts'
import type { Attribute, Sql } from '../../core/store/ports.ts'
import type { Kernel } from '../../engine/storage/kernel.ts'
import type { NewEntry, OpenTimeline } from '../../engine/writing/timeline.ts'
import type { CommitExtras } from '../../engine/writing/writer.ts'
import { sleep } from '../../lib/waiting.ts'
import { type Cursor, type DeadData, entry, toFailure } from './entries.ts'
import { versionPrint } from './fingerprint.ts'
import type { FinishedSet } from './finished-keys.ts'
import { Flight, type InFlight } from './in-flight.ts'
import type { Receipt } from './queues/held-message.ts'
import { type Marked, Marks } from './settled-positions.ts'
import { entryOfKey } from './sources/feed.ts'
import { finishedSet, type JobState } from './state.ts'

/** The parts of an item in flight that its shard uses. */
export interface ShardItem extends InFlight, Marked {
  readonly item: unknown
  readonly isUnread: boolean
  readonly version: string
  /** The number of failed attempts. */
  readonly attempts: number
  readonly retryAt: number
  readonly result: unknown
  crashes: number
  readonly userSqls: readonly UserSql[] | null
  readonly receipt: Receipt | null
  abort(reason: Error): void
}

/** The user's SQL that commits with the record that an item is done. */
export type UserSql = (sql: Sql) => Promise<unknown> | unknown

const keysPerEntry = 1000
const attributesEveryMs = 1000
const moveEveryMs = 1000
const firstPauseMs = 20
const longestPauseMs = 1000
/**
 * An entry may hold a thousand keys, so the number of entries does not bound the replay time. This many keys replay in
 * less than a second.
 */
const keysPerCheckpoint = 100_000

export class Shard<Item extends ShardItem> {
  readonly index: number
  readonly open: OpenTimeline<JobState>
  readonly finished: FinishedSet
  readonly inFlight = new Flight<Item>()
  /** The number of items, right after a crash, whose start is recorded before they are tried. */
  careful = 0
  /** No new items: the shard is being handed over or stopped. */
  isLeaving = false
  /** The job was stopped and its grace time is over: writes no longer wait for the store. */
  isCutOff = false
  readonly #kernel: Kernel
  readonly #onLost: () => void
  readonly #keepsResults: boolean
  readonly #cursorName: string | null
  readonly marks: Marks
  /** A position of the source is durable. */
  onReached: ((position: unknown) => void) | null = null
  #attributesAt = Number.NEGATIVE_INFINITY
  #movedAt: number
  #lost: unknown = null
  #keysSince = 0

  constructor(
    kernel: Kernel,
    open: OpenTimeline<JobState>,
    index: number,
    settings: { readonly keepsResults: boolean; readonly cursorName: string | null },
    onLost: () => void,
  ) {
    this.#kernel = kernel
    this.open = open
    this.index = index
    this.#keepsResults = settings.keepsResults
    this.#cursorName = settings.cursorName
    this.#onLost = onLost
    this.finished = finishedSet(open.state)
    this.marks = new Marks(open.state.cursor)
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

  /** The source reached a position. */
  passed(cursor: Cursor): void {
    // A leaving shard takes no more items, so its cursor must not pass them.
    if (!this.isLeaving) this.marks.pass(cursor)
  }

  take(task: Item): void {
    this.inFlight.add(task)
    this.marks.take(task)
  }

  /** Records the items as done, with the cursor they reach. Durable when it resolves. */
  async recordDone(batch: readonly Item[]): Promise<void> {
    const cursor = this.marks.reachedWith(batch)
    await this.write(this.#doneEntries(batch, cursor), { ...this.#extras(batch), ...this.#cursors(cursor) })
    this.#settled(batch, cursor)
    this.#checkpointAfter(batch.length)
  }

  /** Records a failed attempt. Durable when it resolves. */
  async recordFailure(task: Item, error: unknown): Promise<void> {
    const { key, version, attempts, retryAt } = task
    const data = { key, attempts, error: toFailure(error), retryAt, ...(version && { version }) }
    await this.write([entry('failed', data)])
  }

  async bury(task: Item, error: unknown): Promise<void> {
    const cursor = this.marks.reachedWith([task])
    const base = { key: task.key, attempts: task.attempts, error: toFailure(error), ...(cursor && { cursor }) }
    const versioned = task.version ? { ...base, version: task.version } : base
    const whole: DeadData = { ...versioned, item: task.item, hasItem: true, ...(task.isUnread && { unread: true }) }
    try {
      await this.write([entry('dead', whole)], this.#cursors(cursor))
    } catch (failure) {
      if (!isReprise(failure, 'UNSERIALIZABLE', 'LIMIT_EXCEEDED')) throw failure
      await this.write([entry('dead', { ...versioned, hasItem: false })], this.#cursors(cursor))
    }
    this.#settled([task], cursor)
  }

  /** Drops a task that will not be settled here. */
  drop(task: Item): void {
    this.inFlight.delete(task)
    task.receipt?.released()
  }

  /** The job was stopped with items in flight whose start was recorded: they did not end the process. */
  async recordCutOff(error: unknown): Promise<void> {
    const begun = this.inFlight.all().filter(({ crashes }) => crashes > 0)
    const entries = begun.map(({ key, attempts, version }) =>
      entry('failed', { key, attempts, error: toFailure(error), retryAt: 0, ...(version && { version }) }),
    )
    if (entries.length > 0) await this.write(entries)
  }

  async begun(task: Item): Promise<void> {
    await this.write([entry('begun', { keys: [task.key] })])
    task.crashes += 1
  }

  /** Writes again while the store is full or busy: that is not a failure of an item. */
  async write(entries: readonly NewEntry[], extras: CommitExtras = {}): Promise<void> {
    const { clock, events } = this.#kernel
    for (let attempt = 1; ; attempt++) {
      try {
        await this.open.write(entries, extras)
        return
      } catch (error) {
        if (this.open.broken) this.#lose(error)
        if (this.#lost || this.isCutOff || !isPassingStoreFailure(error)) throw error
        events.emit('store-retry', { error, attempt })
        if (attempt === 1) events.emit('problem', { where: this.open.id, error })
        await sleep(clock, growingPause(attempt, firstPauseMs, longestPauseMs))
      }
    }
  }

  /** Writes the cursor up to which the source is settled. */
  async settle(): Promise<void> {
    if (this.#lost) return
    const cursor = this.marks.reachedWith([])
    if (!cursor) return
    await this.write([entry('moved', { cursor })], this.#cursors(cursor))
    this.#settled([], cursor)
  }

  /** The source advanced over finished items: records the position now and then. */
  noteMoves(): void {
    const now = this.#kernel.clock.elapsed()
    if (now - this.#movedAt < moveEveryMs || this.#lost) return
    this.#movedAt = now
    const cursor = this.marks.reachedWith([])
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

  idempotencyKey(task: Item): string {
    const { hash } = this.#kernel
    const key = this.#keyOf('item', [this.#itemOf(task), task.version])
    return key ?? formerItemKey(hash, liveIdOf(this.open.id), task.key, task.version)
  }

  /** The key of an item's effect, independent of other items. Undefined if the job began without an identity. */
  effectKey(task: Item, name: string, input: unknown): string | undefined {
    const { hash, codec } = this.#kernel
    const declared = input === undefined ? [] : [toHex(hash(codec.encode(input)))]
    return this.#keyOf(name, ['effect', this.#itemOf(task), task.version, ...declared])
  }

  #itemOf({ key }: Item): string {
    return this.state.entryKeys ? entryOfKey(key) : key
  }

  #keyOf(name: string, parts: readonly string[]): string | undefined {
    const { identity } = this.state
    if (!identity) return
    const { generation } = this.open.origin
    return intentKey(this.#kernel.hash, { identity: identity.id, generation, model: 'job', name, parts })
  }

  #checkpointAfter(keys: number): void {
    this.#keysSince += keys
    if (this.#keysSince < keysPerCheckpoint) return
    this.#keysSince = 0
    this.open.checkpoint({ trigger: 'count' }).catch((error) => {
      if (!this.#lost) this.#kernel.events.emit('problem', { where: this.open.id, error })
    })
  }

  #doneEntries(batch: readonly Item[], cursor: Cursor | null): NewEntry[] {
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

  #extras(batch: readonly Item[]): CommitExtras {
    const now = this.#kernel.clock.elapsed()
    const userSqls: UserSql[] = []
    for (const task of batch) if (task.userSqls) userSqls.push(...task.userSqls)
    const isDue = now - this.#attributesAt > attributesEveryMs
    if (isDue) this.#attributesAt = now
    return {
      ...(isDue && { attributes: { ...this.attributes(), done: this.state.done + batch.length } }),
      ...(userSqls.length > 0 && {
        userSql: async (sql) => {
          for (const userSql of userSqls) await userSql(sql)
        },
      }),
    }
  }

  /** A named cursor moves in the same commit as the items it passes. */
  #cursors(cursor: Cursor | null): CommitExtras {
    return this.#cursorName !== null && cursor ? { cursors: { [this.#cursorName]: String(cursor.position) } } : {}
  }

  #settled(tasks: readonly Item[], cursor: Cursor | null): void {
    this.marks.settle(tasks, cursor)
    for (const task of tasks) {
      this.inFlight.delete(task)
      // The record is durable: only now may the broker forget the message.
      task.receipt?.settled()
    }
    if (cursor) this.onReached?.(cursor.position)
  }

  /** The shard's data belongs to a copy of the store that was replaced. */
  async abandon(error: unknown): Promise<void> {
    // The timeline must not stay open, or later runs would resume from this data. The release is expected to fail.
    await this.open.shut().catch(() => undefined)
    this.#lose(error)
  }

  #lose(error: unknown): void {
    if (this.#lost) return
    this.#lost = error ?? new RepriseError('FENCED', `${this.open.id} was taken over`)
    const stop = error instanceof Error ? error : new RepriseError('FENCED', `${this.open.id} was taken over`)
    for (const task of this.inFlight.all()) task.abort(stop)
    this.#onLost()
    // Releases the ownership, if the store answers.
    void this.open.shut().catch(() => undefined)
  }
}
