// A transaction of a paged table: reads may wait for pages, writes are buffered until the end. Transactions run one after
// another without writes in between, so a value that was read stays current until the commit.

import type { KeyedRange } from '../../core/keyed-state/keyed.ts'
import type { Batch } from './batch.ts'
import { type TransactionWrites, type ViewHead, WriteBuffer } from './transaction.ts'

/** The source of a transaction's reads. */
export interface PagedView<V> extends ViewHead {
  get(key: string): Promise<V | undefined>
  entries(range: KeyedRange): AsyncGenerator<[string, V]>
}

/** The argument of the function passed to `transaction`: like that of a resident table, except that reads may wait. */
export interface PagedTransaction<V> extends TransactionWrites<V> {
  get(key: string): Promise<V | undefined>
  has(key: string): Promise<boolean>
  entries(range?: KeyedRange): AsyncGenerator<[string, V]>
}

export class PagedBuffer<V> extends WriteBuffer<V, PagedView<V>> implements PagedTransaction<V>, PagedView<V>, Batch {
  get now(): number {
    return this.view.now
  }

  get ttlMs(): number | undefined {
    return this.view.ttlMs
  }

  async get(key: string): Promise<V | undefined> {
    this.check(key)
    const own = this.writes.get(key)
    return own ? (own.value as V | undefined) : await this.view.get(key)
  }

  async has(key: string): Promise<boolean> {
    return (await this.get(key)) !== undefined
  }

  async *entries(range: KeyedRange = {}): AsyncGenerator<[string, V]> {
    this.check('')
    const { limit, ...whole } = range
    let left = limit ?? Number.POSITIVE_INFINITY
    const isFirst = (a: string, b: string) => (range.reverse ? a > b : a < b)
    const rows = this.view.entries(whole)
    const writes = this.writes.entries(whole)
    let row = await rows.next()
    let write = writes.next()
    while (left > 0 && (!row.done || !write.done)) {
      if (write.done || (!row.done && isFirst(row.value[0], write.value[0]))) {
        left -= 1
        yield row.value as [string, V]
        row = await rows.next()
        continue
      }
      const [key, { value, isDeleted }] = write.value
      if (!row.done && row.value[0] === key) row = await rows.next()
      if (!isDeleted) {
        left -= 1
        yield [key, value as V]
      }
      write = writes.next()
    }
  }

  /** Merges the writes of a later transaction. */
  take(later: PagedBuffer<V>): void {
    for (const [key, write] of later.writes) this.writes.set(key, write)
    for (const [source, offset] of later.offsets) this.offsets.set(source, offset)
  }
}
