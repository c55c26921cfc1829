// The user's handle of an open paged table: like that of a resident table, except that reads may wait for a page. Reads
// return durable, committed rows; writes resolve when they are durable.

import type { Coordinate } from '../../core/coordinate.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import type { KeyedRange } from '../../core/keyed-state/keyed.ts'
import { checkOptions } from '../../core/options.ts'
import { checkFunction } from '../../core/synchronous.ts'
import type { RecoveryReport } from '../../engine/base/recovery-report.ts'
import type { CheckpointRequest, PublishedCheckpoint } from '../../engine/checkpoint/checkpointer.ts'
import type { Fold } from '../../engine/model/definition.ts'
import { openedAs } from '../../engine/model/model.ts'
import type { Kernel } from '../../engine/storage/kernel.ts'
import type { OpenTimeline } from '../../engine/writing/timeline.ts'
import type { CommitExtras } from '../../engine/writing/writer.ts'
import { BatchWriter } from './batch.ts'
import { Endings } from './expiries.ts'
import type { TableModel } from './handle.ts'
import type { Term, TermRange } from './indexes.ts'
import { tablePrefix } from './layout.ts'
import { PagedCheckpointer } from './paged-checkpoint.ts'
import { PagedIndexes } from './paged-indexes.ts'
import type { OpenedPaged } from './paged-open.ts'
import type { PagedBuffer, PagedTransaction, PagedView } from './paged-transaction.ts'
import { PagedWriter } from './paged-writer.ts'
import type { PageStats } from './pages.ts'
import { type Offset, observer, type TableState } from './state.ts'
import { knownSet, type SetOptions } from './transaction.ts'
import { checkRange, type TableChange, Watchers } from './watchers.ts'

/** Maximum number of concurrent page reads for rows about to change. */
const readsAtOnce = 64

export class PagedTable<V> {
  readonly #kernel: Kernel
  readonly #opened: OpenedPaged<V>
  readonly #model: TableModel<V>
  readonly #writer: PagedWriter<V>
  readonly #batches: BatchWriter<V>
  readonly #checkpointer: PagedCheckpointer<V>
  readonly #indexes: PagedIndexes<V>
  readonly #watchers = new Watchers<V>()
  readonly #endings: Endings
  /** Rows before the commit in progress, for indexes and watchers: applying an entry cannot wait for a page. */
  #before = new Map<string, V | undefined>()
  #damage: RepriseError | null = null
  #holders = 1
  #closing: Promise<void> | null = null
  /** For the definition: called after the close. */
  onShut: () => void = () => undefined

  /** @internal */
  constructor(
    kernel: Kernel,
    opened: OpenedPaged<V>,
    model: TableModel<V>,
    changedRows: number,
    fold: Pick<Fold<TableState<V>>, 'version' | 'retain'>,
  ) {
    this.#kernel = kernel
    this.#opened = opened
    this.#model = model
    this.#indexes = new PagedIndexes(model.name, model.indexes)
    this.#batches = new BatchWriter(opened.open)
    this.#writer = new PagedWriter(this.#view(), (batch, extras) => this.#commit(batch, extras))
    this.#checkpointer = new PagedCheckpointer(kernel, opened, changedRows, fold.retain ?? {}, fold.version)
    this.#endings = new Endings(kernel, opened.open as OpenTimeline<unknown>, opened.open.state.expiry)
    opened.open.state[observer] = {
      changed: (key, after) => this.#changed(key, after as V | undefined),
      expires: (key, before, after) => this.#endings.expires(key, before, after),
    }
    opened.open.watch(() => this.#watchers.notify())
    opened.rows.onDamage = (error) => this.#foundDamage(error)
    this.#endings.start(() => this.sweep())
  }

  /** @internal For the definition: undoes transactions that a crash interrupted. */
  recover(): Promise<number> {
    return this.#batches.undoUnfinished()
  }

  /** @internal For the definition: rewrites rows of an older version in the background. */
  settleMigration(): void {
    this.#checkpointer.settleMigration()
  }

  get isOpen(): boolean {
    return this.#closing === null && this.#damage === null && this.#opened.open.broken === null
  }

  /** The id the table was opened with. Default: its name. */
  get id(): string {
    return openedAs(tablePrefix + this.#model.name, this.timeline, this.#model.name)
  }

  get timeline(): string {
    return this.#opened.open.id
  }

  get recovery(): RecoveryReport {
    return this.#opened.open.recovery
  }

  get coordinate(): Coordinate {
    return this.#opened.open.coordinate
  }

  /** Cache statistics: hits and page reads. */
  get stats(): PageStats {
    return this.#opened.rows.stats
  }

  async get(key: string): Promise<V | undefined> {
    if (this.#hasEnded(key)) return undefined
    const value = await this.#opened.rows.get(key)
    return this.#hasEnded(key) ? undefined : value
  }

  async has(key: string): Promise<boolean> {
    return (await this.get(key)) !== undefined
  }

  /** In key order. A row that changes during the iteration is returned in its old or its new state. */
  async *entries(range: KeyedRange = {}): AsyncGenerator<[string, V]> {
    checkRange(range)
    const { limit, ...whole } = range
    let left = limit ?? Number.POSITIVE_INFINITY
    if (left <= 0) return
    for await (const entry of this.#opened.rows.entries(whole)) {
      if (this.#hasEnded(entry[0])) continue
      yield entry
      left -= 1
      if (left <= 0) return
    }
  }

  async *keys(range: KeyedRange = {}): AsyncGenerator<string> {
    for await (const [key] of this.entries(range)) yield key
  }

  async *values(range: KeyedRange = {}): AsyncGenerator<V> {
    for await (const [, value] of this.entries(range)) yield value
  }

  [Symbol.asyncIterator](): AsyncGenerator<[string, V]> {
    return this.entries()
  }

  /** Counts by iterating: a paged table does not know its size, because a write does not check whether its key is new. */
  async count(range: KeyedRange = {}): Promise<number> {
    let count = 0
    for await (const _ of this.entries(range)) count += 1
    return count
  }

  /** Rows by a secondary index, for one term or a range of terms. The first call reads all pages. */
  async *by(name: string, term: Term | TermRange): AsyncGenerator<[string, V]> {
    const index = await this.#indexes.get(
      name,
      (run) => this.#writer.submit(run),
      () => this.#opened.rows.entries(),
    )
    for (const [place, key] of index.find(term)) {
      const value = await this.get(key)
      // Checked again: the row may have changed while its page was read, or while the index was built.
      if (value !== undefined && index.isAt(place, key, value)) yield [key, value]
    }
  }

  async set(key: string, value: V, options: SetOptions = {}): Promise<void> {
    checkOptions('set', options, knownSet)
    await this.transaction((tx) => tx.set(key, value, options))
  }

  /** Resolves with true if there was a row. */
  async delete(key: string): Promise<boolean> {
    return await this.transaction(async (tx) => {
      const was = await tx.has(key)
      if (was) tx.delete(key)
      return was
    })
  }

  /** Reads, decides and writes atomically. Return undefined to delete. */
  async update(key: string, change: (value: V | undefined) => V | undefined): Promise<V | undefined> {
    checkFunction(change, 'update()')
    return await this.transaction(async (tx) => {
      const next = change(await tx.get(key))
      if (next === undefined) tx.delete(key)
      else tx.set(key, next)
      return next
    })
  }

  /**
   * Atomic and serializable: transactions run one at a time, so a function that waits delays the others. Its writes stay in
   * memory until its end.
   * @example await facts.transaction(async (tx) => tx.set('sum', ((await tx.get('sum')) ?? 0) + 1))
   * /
   */
  transaction<R>(run: (tx: PagedTransaction<V>) => R | Promise<R>): Promise<R>
  /** @internal With extras for the same commit. */
  transaction<R>(run: (tx: PagedTransaction<V>) => R | Promise<R>, extras?: CommitExtras): Promise<R>
  async transaction<R>(run: (tx: PagedTransaction<V>) => R | Promise<R>, extras?: CommitExtras): Promise<R> {
    checkFunction(run, 'transaction()')
    if (this.#damage) throw this.#damage
    if (this.#closing) throw new RepriseError('CLOSED', `${this.timeline} was closed`, { timeline: this.timeline })
    return await this.#writer.submit(run, extras ?? null)
  }

  /** The offset of a source, as of the current rows. */
  offset(source: string): Offset | undefined {
    return this.#opened.open.state.offsets.get(source)
  }

  /** Calls `call` after changes to one key or a range became durable, starting with changes submitted after this call. */
  watch(range: string | KeyedRange, call: (changes: readonly TableChange<V>[]) => void): () => void {
    return this.#watchers.add(range, call)
  }

  /** Deletes expired rows, and returns their number. Runs automatically every second. */
  sweep(): Promise<number> {
    return this.#endings.sweep((ended) =>
      this.transaction(async (tx) => {
        let count = 0
        for (const key of ended) {
          // Read through the transaction: a row may have been set again meanwhile, even in this batch.
          if (await tx.has(key)) continue
          tx.delete(key)
          count += 1
        }
        return count
      }),
    )
  }

  /** Writes the changes since the last checkpoint, page by page. */
  checkpoint(request: CheckpointRequest = {}): Promise<PublishedCheckpoint> {
    return this.#damage ? Promise.reject(this.#damage) : this.#checkpointer.now({ trigger: 'manual', ...request })
  }

  /** @internal For the definition: adds a holder in this process; each holder closes. */
  share(): this {
    this.#holders += 1
    return this
  }

  async close(): Promise<void> {
    this.#holders -= 1
    if (this.#holders <= 0) await this.shut()
  }

  /** @internal Closes the table for all its holders in this process. */
  shut(): Promise<void> {
    this.#closing ??= this.#shut()
    return this.#closing
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  async #shut(): Promise<void> {
    this.#endings.stop()
    try {
      await this.#writer.idle()
      await this.#checkpointer.settled()
      if (!this.#opened.open.broken) await this.#opened.open.close()
    } finally {
      this.onShut()
    }
  }

  #view(): PagedView<V> {
    const { clock } = this.#kernel
    return {
      get: (key) => this.get(key),
      entries: (range) => this.entries(range),
      offset: (source) => this.offset(source),
      get now() {
        return clock.now()
      },
      ttlMs: this.#model.ttlMs,
    }
  }

  async #commit(batch: PagedBuffer<V>, extras: CommitExtras | null): Promise<void> {
    await this.#readBefore(batch)
    await this.#batches.write(batch, extras)
    await this.#checkpointer.afterWrite()
  }

  async #readBefore({ writes }: PagedBuffer<V>): Promise<void> {
    this.#before = new Map()
    if (this.#indexes.isEmpty && this.#watchers.isEmpty) return
    let keys: string[] = []
    const read = async () => {
      const values = await Promise.all(keys.map((key) => this.#opened.rows.get(key)))
      values.forEach((value, i) => {
        this.#before.set(keys[i]!, value)
      })
      keys = []
    }
    for (const key of writes.keys()) {
      if (this.#indexes.isEmpty && !this.#watchers.wants(key)) continue
      if (keys.push(key) >= readsAtOnce) await read()
    }
    await read()
  }

  #changed(key: string, after: V | undefined): void {
    if (!this.#before.has(key)) return
    const before = this.#before.get(key)
    // A transaction contains each key at most once; the next batch reads it again.
    this.#indexes.changed(key, before, after)
    if (this.#watchers.wants(key)) this.#watchers.note({ key, value: after, before })
  }

  #hasEnded(key: string): boolean {
    const { expiry } = this.#opened.open.state
    if (expiry.size === 0) return false
    const at = expiry.get(key)
    return at !== undefined && at <= this.#kernel.clock.now()
  }

  /**
   * A page cannot be read: the checkpoint is marked as invalid, so that the next opening uses the previous one, and this handle
   * closes.
   */
  #foundDamage(error: unknown): void {
    if (this.#damage || this.#closing) return
    if (!isReprise(error, 'CHUNK_MISSING', 'CHUNK_DAMAGED', 'CHECKPOINT_DAMAGED', 'MALFORMED')) return
    this.#damage = error
    const id = this.#checkpointer.baseId
    const { open } = this.#opened
    const marking = async () => {
      if (id === null) return
      await open.mark({ id, invalid: error.message })
      this.#kernel.events.emit('checkpoint-damaged', { timeline: open.id, id, reason: error.message })
    }
    void marking()
      .catch((problem) => this.#kernel.events.emit('problem', { where: open.id, error: problem }))
      .finally(() => this.shut())
  }
}
