// The writing side of a paged table: one queue. All transactions queued in the same tick run one after another, each on the
// result of the previous ones, and are written as one commit. A transaction that waits for a page delays the others; in
// return, transactions are serializable without tracking their reads.

import type { CommitExtras } from '../../engine/writing/writer.ts'
import { PagedBuffer, type PagedTransaction, type PagedView } from './paged-transaction.ts'

/** A batch ends at this number of writes. */
const batchWrites = 8192

interface Item<V> {
  readonly run: (tx: PagedTransaction<V>) => unknown
  readonly extras: CommitExtras | null
  resolve(result: unknown): void
  reject(error: unknown): void
}

export class PagedWriter<V> {
  readonly #rows: PagedView<V>
  readonly #write: (batch: PagedBuffer<V>, extras: CommitExtras | null) => Promise<void>
  #queue: Item<V>[] = []
  #working: Promise<void> | null = null

  constructor(rows: PagedView<V>, write: (batch: PagedBuffer<V>, extras: CommitExtras | null) => Promise<void>) {
    this.#rows = rows
    this.#write = write
  }

  submit<R>(run: (tx: PagedTransaction<V>) => R | Promise<R>, extras: CommitExtras | null = null): Promise<R> {
    return new Promise<R>((resolve, reject) => {
      this.#queue.push({ run, extras, resolve: resolve as (result: unknown) => void, reject })
      // Deferred: all transactions submitted in this tick belong to one batch.
      this.#working ??= Promise.resolve().then(() => this.#work())
    })
  }

  /** Resolves when all submitted transactions are settled. */
  async idle(): Promise<void> {
    while (this.#working) await this.#working
  }

  async #work(): Promise<void> {
    while (this.#queue.length > 0) {
      const batch = new PagedBuffer<V>(this.#rows)
      const done: { readonly item: Item<V>; readonly result: unknown }[] = []
      try {
        await this.#runBatch(batch, done)
        await this.#write(batch, done[0]?.item.extras ?? null)
        for (const { item, result } of done) item.resolve(result)
      } catch (error) {
        for (const { item } of done) item.reject(error)
      }
    }
    this.#working = null
  }

  /** Runs transactions one after another; one with commit extras has a batch of its own. */
  async #runBatch(batch: PagedBuffer<V>, done: { item: Item<V>; result: unknown }[]): Promise<void> {
    while (this.#queue.length > 0 && batch.writes.size < batchWrites) {
      const item = this.#queue[0]!
      if (item.extras && done.length > 0) return
      this.#queue.shift()
      const buffer = new PagedBuffer<V>(batch)
      try {
        const running = item.run(buffer)
        const result = running instanceof Promise ? await running : running
        batch.take(buffer)
        done.push({ item, result })
      } catch (error) {
        item.reject(error)
      } finally {
        buffer.end()
      }
      if (item.extras) return
    }
  }
}
