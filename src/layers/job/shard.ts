// One timeline of a job, owned by this process: its finished keys, its items in flight, how far the source is settled, and
// the record of what came of each item. It is called, by those who do the work, and calls nobody; only that it was lost to
// another process is told.

import { toHex } from '../../core/coordinate.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import { formerItemKey, intentKey } from '../../core/history/identity.ts'
import { liveIdOf } from '../../core/history/scope.ts'
import type { Attribute, Sql } from '../../core/store/ports.ts'
import type { Kernel } from '../../engine/storage/kernel.ts'
import type { NewEntry, OpenTimeline } from '../../engine/writing/timeline.ts'
import type { CommitExtras } from '../../engine/writing/writer.ts'
import { versionPrint } from './digest.ts'
import { type Cursor, type DeadData, entry, toFailure } from './entries.ts'
import type { FinishedSet } from './finished.ts'
import { Flight, type InFlight } from './flight.ts'
import { type Marked, Marks } from './marks.ts'
import { entryOfKey } from './sources/feed.ts'
import { finishedSet, type JobState } from './state.ts'

/** An item on its way, as far as its shard is concerned. */
export interface ShardItem extends InFlight, Marked {
  readonly item: unknown
  readonly isUnread: boolean
  readonly version: string
  /** Failed so far. */
  readonly attempts: number
  readonly retryAt: number
  readonly result: unknown
  crashes: number
  readonly userSqls: readonly UserSql[] | null
  abort(reason: Error): void
}

/** SQL of the user's that commits with the record that an item is done. */
export type UserSql = (sql: Sql) => Promise<unknown> | unknown

const keysPerEntry = 1000
const attributesEveryMs = 1000
const moveEveryMs = 1000
/** An entry may hold a thousand keys, so entries alone do not say how long a replay takes. Replays in less than a second. */
const keysPerCheckpoint = 100_000

export class Shard<Item extends ShardItem> {
  readonly index: number
  readonly open: OpenTimeline<JobState>
  readonly finished: FinishedSet
  readonly inFlight = new Flight<Item>()
  /** Items right after a crash are noted before they are tried. */
  careful = 0
  /** No new items: it is being handed over or stopped. */
  isLeaving = false
  readonly #kernel: Kernel
  readonly #onLost: () => void
  readonly #keepsResults: boolean
  readonly #cursorName: string | null
  readonly marks: Marks
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
    // Items of a shard that is leaving are not taken any more, so its cursor must not go past them.
    if (!this.isLeaving) this.marks.pass(cursor)
  }

  take(task: Item): void {
    this.inFlight.add(task)
    this.marks.take(task)
  }

  /** They are done, durably when it resolves, and so is the cursor that this reaches. */
  async recordDone(batch: readonly Item[]): Promise<void> {
    const cursor = this.marks.reachedWith(batch)
    await this.write(this.#doneEntries(batch, cursor), { ...this.#along(batch), ...this.#cursors(cursor) })
    this.#settled(batch, cursor)
    this.#checkpointAfter(batch.length)
  }

  /** A failed attempt, durable when it resolves. */
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

  /** Let go of a task that will not be settled here. */
  drop(task: Item): void {
    this.inFlight.delete(task)
  }

  async begun(task: Item): Promise<void> {
    await this.write([entry('begun', { keys: [task.key] })])
    task.crashes += 1
  }

  async write(entries: readonly NewEntry[], along: CommitExtras = {}): Promise<void> {
    try {
      await this.open.write(entries, along)
    } catch (error) {
      if (this.open.broken) this.#lose(error)
      throw error
    }
  }

  /** The cursor is where the source is settled when it resolves. */
  async settle(): Promise<void> {
    if (this.#lost) return
    const cursor = this.marks.reachedWith([])
    if (!cursor) return
    await this.write([entry('moved', { cursor })], this.#cursors(cursor))
    this.#settled([], cursor)
  }

  /** The source advanced over items that were done already: note it now and then. */
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

  /** Of an effect of an item: the same whatever other items do. Undefined: the job began without an identity. */
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

  #along(batch: readonly Item[]): CommitExtras {
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

  /** A named cursor moves in the same commit as what it stands for. */
  #cursors(cursor: Cursor | null): CommitExtras {
    return this.#cursorName !== null && cursor ? { cursors: { [this.#cursorName]: String(cursor.position) } } : {}
  }

  #settled(tasks: readonly Item[], cursor: Cursor | null): void {
    this.marks.settle(tasks, cursor)
    for (const task of tasks) this.inFlight.delete(task)
  }

  /** What it holds is of a copy of the store that is no longer up. */
  async abandon(error: unknown): Promise<void> {
    // Others may not find it open: they would go on with what it holds. That it cannot be released is to be expected.
    await this.open.shut().catch(() => undefined)
    this.#lose(error)
  }

  #lose(error: unknown): void {
    if (this.#lost) return
    this.#lost = error ?? new RepriseError('FENCED', `${this.open.id} was taken over`)
    const stop = error instanceof Error ? error : new RepriseError('FENCED', `${this.open.id} was taken over`)
    for (const task of this.inFlight.all()) task.abort(stop)
    this.#onLost()
    // Not owned any more by this process either, as far as the store answers.
    void this.open.shut().catch(() => undefined)
  }
}
