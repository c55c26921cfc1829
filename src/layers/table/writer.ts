// The writing side of a table: one queue, so transactions have one order. All transactions queued in the same tick run one
// after another, each on the result of the previous ones, and are written as one commit. Isolation is serializable: an
// asynchronous transaction is validated before it is written, and run again alone if a value it read has changed.

import { Keyed, type KeyedRange } from '../../core/keyed-state/keyed.ts'
import type { OpenTimeline } from '../../engine/writing/timeline.ts'
import type { CommitExtras } from '../../engine/writing/writer.ts'
import { BatchWriter } from './batch.ts'
import type { Offset, TableState } from './state.ts'
import { Buffer, merged, type Transaction, type View, type Write } from './transaction.ts'

/** A batch ends at this number of writes. */
const batchWrites = 8192

interface Item<V> {
  readonly run: (tx: Transaction<V>) => unknown
  readonly extras: CommitExtras | null
  /** The transaction already ran asynchronously: it is validated, and run again only if that fails. */
  readonly ran: { readonly buffer: Buffer<V>; readonly result: unknown } | null
  resolve(result: unknown): void
  reject(error: unknown): void
}

/** Writes of the batch so far, over the committed rows. */
class Overlay<V> implements View<V> {
  readonly writes = new Keyed<Write>()
  readonly offsets = new Map<string, Offset>()
  readonly #rows: View<V>

  constructor(rows: View<V>) {
    this.#rows = rows
  }

  get now(): number {
    return this.#rows.now
  }

  get ttlMs(): number | undefined {
    return this.#rows.ttlMs
  }

  get(key: string): V | undefined {
    const write = this.writes.get(key)
    return write ? (write.value as V | undefined) : this.#rows.get(key)
  }

  entries(range: KeyedRange): IterableIterator<[string, V]> {
    if (this.writes.size === 0) return this.#rows.entries(range)
    return merged(this.#rows.entries(range), this.writes.entries(range), range.reverse ?? false)
  }

  offset(source: string): Offset | undefined {
    return this.offsets.get(source) ?? this.#rows.offset(source)
  }

  take(buffer: Buffer<V>): void {
    for (const [key, write] of buffer.writes) this.writes.set(key, write)
    for (const [source, offset] of buffer.offsets) this.offsets.set(source, offset)
  }
}

export class TableWriter<V> {
  readonly #batches: BatchWriter<V>
  readonly #rows: View<V>
  #queue: Item<V>[] = []
  #isBusy = false

  constructor(open: OpenTimeline<TableState<V>>, rows: View<V>) {
    this.#batches = new BatchWriter(open)
    this.#rows = rows
  }

  submit<R>(run: (tx: Transaction<V>) => R | Promise<R>, extras: CommitExtras | null = null): Promise<R> {
    return new Promise<R>((resolve, reject) => {
      this.#queue.push({ run, extras, ran: null, resolve: resolve as (result: unknown) => void, reject })
      // Deferred: all transactions submitted in this tick belong to one batch.
      if (!this.#isBusy) {
        this.#isBusy = true
        queueMicrotask(() => void this.#work())
      }
    })
  }

  /** Undoes transactions that a crash interrupted, before anything else is written. */
  undoUnfinished(): Promise<number> {
    return this.#batches.undoUnfinished()
  }

  async #work(): Promise<void> {
    while (this.#queue.length > 0) {
      const overlay = new Overlay(this.#rows)
      const done: { item: Item<V>; result: unknown }[] = []
      try {
        await this.#runBatch(overlay, done)
        await this.#batches.write(overlay, done[0]?.item.extras ?? null)
        for (const { item, result } of done) item.resolve(result)
      } catch (error) {
        for (const { item } of done) item.reject(error)
      }
    }
    this.#isBusy = false
  }

  async #runBatch(overlay: Overlay<V>, done: { item: Item<V>; result: unknown }[]): Promise<void> {
    while (this.#queue.length > 0 && overlay.writes.size < batchWrites) {
      const item = this.#queue[0]!
      if (item.extras && done.length > 0) return
      this.#queue.shift()
      try {
        const outcome = item.ran ? await this.#check(item, overlay) : this.#run(item, overlay)
        if (!outcome) continue
        overlay.take(outcome.buffer)
        done.push({ item, result: outcome.result })
      } catch (error) {
        item.reject(error)
      }
      if (item.extras) return
    }
  }

  /** Null: the transaction is asynchronous, and returns to the queue when it has finished. */
  #run(item: Item<V>, overlay: Overlay<V>): { buffer: Buffer<V>; result: unknown } | null {
    const buffer = new Buffer<V>(overlay)
    const result = item.run(buffer)
    if (!(result instanceof Promise)) {
      buffer.end()
      return { buffer, result }
    }
    result.then(
      (value) => {
        buffer.end()
        this.#queue.push({ ...item, ran: { buffer, result: value } })
        if (this.#isBusy) return
        this.#isBusy = true
        void this.#work()
      },
      (error) => {
        buffer.end()
        item.reject(error)
      },
    )
    return null
  }

  /**
   * Other transactions committed meanwhile. If its reads are still valid, it is treated as run now; otherwise it runs again while
   * all others wait.
   */
  async #check(item: Item<V>, overlay: Overlay<V>): Promise<{ buffer: Buffer<V>; result: unknown }> {
    if (item.ran!.buffer.isValid(overlay)) return item.ran!
    const buffer = new Buffer<V>(overlay)
    try {
      return { buffer, result: await item.run(buffer) }
    } finally {
      buffer.end()
    }
  }
}
