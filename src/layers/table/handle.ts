// The user's handle of an open table. Reads return durable, committed rows without waiting; writes resolve when they are
// durable. Values are shared with the table: set a new value instead of modifying one in place.

import type { Coordinate } from '../../core/coordinate.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import type { KeyedRange } from '../../core/keyed-state/keyed.ts'
import { checkOptions } from '../../core/options.ts'
import { checkFunction } from '../../core/synchronous.ts'
import type { RecoveryReport } from '../../engine/base/recovery-report.ts'
import type { CheckpointRequest, PublishedCheckpoint } from '../../engine/checkpoint/checkpointer.ts'
import { openedAs } from '../../engine/model/model.ts'
import type { Kernel } from '../../engine/storage/kernel.ts'
import type { OpenTimeline } from '../../engine/writing/timeline.ts'
import type { CommitExtras } from '../../engine/writing/writer.ts'
import { Endings } from './expiries.ts'
import { Index, type IndexFunction, type Term, type TermRange } from './indexes.ts'
import { tablePrefix } from './layout.ts'
import { type Offset, observer, type RowObserver, type TableState } from './state.ts'
import { knownSet, type SetOptions, type Transaction, type View } from './transaction.ts'
import { checkRange, type TableChange, Watchers } from './watchers.ts'
import { TableWriter } from './writer.ts'

export interface TableModel<V> {
  readonly name: string
  /** For a partition: throws if it may no longer be written because its store was rescaled. */
  confirm?(): Promise<void>
  readonly ttlMs: number | undefined
  readonly indexes: Readonly<Record<string, IndexFunction<V>>>
}

export class TableHandle<V> {
  readonly #kernel: Kernel
  readonly #model: TableModel<V>
  readonly #open: OpenTimeline<TableState<V>>
  readonly #writer: TableWriter<V>
  readonly #indexes = new Map<string, Index<V>>()
  readonly #watchers = new Watchers<V>()
  readonly #endings: Endings
  readonly #unwatch: () => void
  #holders = 1
  #isClosed = false

  /** @internal */
  constructor(kernel: Kernel, model: TableModel<V>, open: OpenTimeline<TableState<V>>) {
    this.#kernel = kernel
    this.#model = model
    this.#open = open
    this.#writer = new TableWriter(open, this.#view())
    this.#endings = new Endings(kernel, open as OpenTimeline<unknown>, open.state.expiry)
    open.state[observer] = this.#observer()
    this.#unwatch = open.watch(() => this.#watchers.notify())
    this.#endings.start(() => this.sweep())
  }

  /** @internal For the definition: undoes transactions that a crash interrupted. */
  recover(): Promise<number> {
    return this.#writer.undoUnfinished()
  }

  get size(): number {
    return this.#open.state.rows.size
  }

  /** The id the table was opened with. Default: its name. */
  get id(): string {
    return openedAs(tablePrefix + this.#model.name, this.timeline, this.#model.name)
  }

  get timeline(): string {
    return this.#open.id
  }

  get coordinate(): Coordinate {
    return this.#open.coordinate
  }

  get recovery(): RecoveryReport {
    return this.#open.recovery
  }

  get checkpointing() {
    return this.#open.checkpointing
  }

  get(key: string): V | undefined {
    const { rows, expiry } = this.#open.state
    const value = rows.get(key)
    return value !== undefined && expiry.size > 0 && this.#hasEnded(key) ? undefined : value
  }

  has(key: string): boolean {
    return this.get(key) !== undefined
  }

  /** In key order. @example [...sessions.entries({ prefix: 'user/', limit: 10 })] */
  *entries(range: KeyedRange = {}): IterableIterator<[string, V]> {
    checkRange(range)
    const { rows, expiry } = this.#open.state
    if (expiry.size === 0) {
      yield* rows.entries(range)
      return
    }
    const { limit, ...whole } = range
    let left = limit ?? Number.POSITIVE_INFINITY
    for (const entry of rows.entries(whole)) {
      if (left <= 0) return
      if (this.#hasEnded(entry[0])) continue
      left -= 1
      yield entry
    }
  }

  *keys(range: KeyedRange = {}): IterableIterator<string> {
    for (const [key] of this.entries(range)) yield key
  }

  *values(range: KeyedRange = {}): IterableIterator<V> {
    for (const [, value] of this.entries(range)) yield value
  }

  [Symbol.iterator](): IterableIterator<[string, V]> {
    return this.entries()
  }

  /** Rows by a secondary index, for one term or a range of terms. */
  *by(index: string, term: Term | TermRange): IterableIterator<[string, V]> {
    for (const [, key] of this.#index(index).find(term)) {
      const value = this.get(key)
      if (value !== undefined) yield [key, value]
    }
  }

  async set(key: string, value: V, options: SetOptions = {}): Promise<void> {
    checkOptions('set', options, knownSet)
    this.#check()
    await this.#submit((tx) => tx.set(key, value, options))
  }

  /** Resolves with true if there was a row. */
  async delete(key: string): Promise<boolean> {
    this.#check()
    return await this.#submit((tx) => {
      const was = tx.has(key)
      if (was) tx.delete(key)
      return was
    })
  }

  /** Reads, decides and writes atomically. Return undefined to delete. */
  async update(key: string, change: (value: V | undefined) => V | undefined): Promise<V | undefined> {
    checkFunction(change, 'update()')
    this.#check()
    return await this.#submit((tx) => {
      const next = change(tx.get(key))
      if (next === undefined) tx.delete(key)
      else tx.set(key, next)
      return next
    })
  }

  /**
   * Atomic and serializable. The function may be asynchronous, and may run twice.
   * @example await sessions.transaction((tx) => { tx.set('s1', { user: 'ann' }); tx.delete('s0') })
   * /
   */
  transaction<R>(run: (tx: Transaction<V>) => R | Promise<R>): Promise<R>
  /** @internal With extras for the same commit. */
  transaction<R>(run: (tx: Transaction<V>) => R | Promise<R>, extras?: CommitExtras): Promise<R>
  async transaction<R>(run: (tx: Transaction<V>) => R | Promise<R>, extras?: CommitExtras): Promise<R> {
    checkFunction(run, 'transaction()')
    this.#check()
    return await this.#submit(run, extras ?? null)
  }

  /** The offset of a source, as of the current rows. */
  offset(source: string): Offset | undefined {
    return this.#open.state.offsets.get(source)
  }

  /** Calls `call` after changes to one key or a range became durable. */
  watch(range: string | KeyedRange, call: (changes: readonly TableChange<V>[]) => void): () => void {
    return this.#watchers.add(range, call)
  }

  checkpoint(request: CheckpointRequest = {}): Promise<PublishedCheckpoint> {
    return this.#open.checkpoint(request)
  }

  /** @internal For the definition: adds a holder in this process; each holder closes. */
  share(): this {
    this.#holders += 1
    return this
  }

  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#holders -= 1
    if (this.#holders <= 0) {
      this.#isClosed = true
      this.#endings.stop()
      this.#unwatch()
    }
    await this.#open.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  #view(): View<V> {
    const { clock } = this.#kernel
    const { rows, offsets } = this.#open.state
    const { ttlMs } = this.#model
    return {
      get: (key) => this.get(key),
      entries: (range) => (this.#open.state.expiry.size === 0 ? rows.entries(range) : this.entries(range)),
      offset: (source) => offsets.get(source),
      get now() {
        return clock.now()
      },
      ttlMs,
    }
  }

  #observer(): RowObserver {
    return {
      changed: (key, after) => {
        if (this.#indexes.size === 0 && this.#watchers.isEmpty) return
        const before = this.#open.state.rows.get(key)
        for (const index of this.#indexes.values()) index.changed(key, before, after as V | undefined)
        if (!this.#watchers.isEmpty) this.#watchers.note({ key, value: after as V | undefined, before })
      },
      expires: (key, before, after) => this.#endings.expires(key, before, after),
    }
  }

  #index(name: string): Index<V> {
    const held = this.#indexes.get(name)
    if (held) return held
    const terms = Object.hasOwn(this.#model.indexes, name) ? this.#model.indexes[name] : undefined
    if (!terms) throw new RepriseError('INVALID_ARGUMENT', `${this.#model.name} has no index ${name}`, { index: name })
    const made = new Index(terms, this.#open.state.rows.entries())
    this.#indexes.set(name, made)
    return made
  }

  #hasEnded(key: string): boolean {
    const at = this.#open.state.expiry.get(key)
    return at !== undefined && at <= this.#kernel.clock.now()
  }

  /** Deletes expired rows, and returns their number. Runs automatically every second. */
  sweep(): Promise<number> {
    return this.#endings.sweep((ended) =>
      this.#writer.submit((tx) => {
        // Read through the transaction: a row may have been set again meanwhile, even in this batch.
        const over = ended.filter((key) => !tx.has(key))
        for (const key of over) tx.delete(key)
        return over.length
      }),
    )
  }

  async #submit<R>(run: (tx: Transaction<V>) => R | Promise<R>, extras: CommitExtras | null = null): Promise<R> {
    try {
      return await this.#writer.submit(run, extras)
    } catch (error) {
      // If the store was rescaled, that is the reason.
      if (isReprise(error, 'FENCED', 'NOT_FOUND')) await this.#model.confirm?.()
      throw error
    }
  }

  #check(): void {
    if (this.#isClosed) throw new RepriseError('CLOSED', `${this.timeline} was closed`, { timeline: this.timeline })
  }
}
