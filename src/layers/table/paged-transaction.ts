// A transaction of a paged table: reads may wait for pages, writes are buffered until the end. Transactions run one after
// another without writes in between, so a value that was read stays current until the commit.

import { toMs } from '../../core/duration.ts'
import { RepriseError } from '../../core/errors.ts'
import { Keyed, type KeyedRange } from '../../core/keyed/keyed.ts'
import { checkOptions } from '../../core/options.ts'
import type { Batch } from './batch.ts'
import type { Offset } from './state.ts'
import { checkAdvance, knownSet, type SetOptions, type Write } from './transaction.ts'

/** The source of a transaction's reads. */
export interface PagedView<V> {
  get(key: string): Promise<V | undefined>
  entries(range: KeyedRange): AsyncGenerator<[string, V]>
  offset(source: string): Offset | undefined
  readonly now: number
  readonly ttlMs: number | undefined
}

/** The argument of the function passed to `transaction`: like that of a resident table, except that reads may wait. */
export interface PagedTransaction<V> {
  get(key: string): Promise<V | undefined>
  has(key: string): Promise<boolean>
  set(key: string, value: V, options?: SetOptions): void
  delete(key: string): void
  entries(range?: KeyedRange): AsyncGenerator<[string, V]>
  offset(source: string): Offset | undefined
  advance(source: string, offset: Offset): void
}

export class PagedBuffer<V> implements PagedTransaction<V>, PagedView<V>, Batch {
  readonly writes = new Keyed<Write>()
  readonly offsets = new Map<string, Offset>()
  readonly #view: PagedView<V>
  #isOver = false

  constructor(view: PagedView<V>) {
    this.#view = view
  }

  get now(): number {
    return this.#view.now
  }

  get ttlMs(): number | undefined {
    return this.#view.ttlMs
  }

  async get(key: string): Promise<V | undefined> {
    this.#check(key)
    const own = this.writes.get(key)
    return own ? (own.value as V | undefined) : await this.#view.get(key)
  }

  async has(key: string): Promise<boolean> {
    return (await this.get(key)) !== undefined
  }

  set(key: string, value: V, options: SetOptions = {}): void {
    checkOptions('set', options, knownSet)
    this.#check(key)
    if (value === undefined) {
      throw new RepriseError('INVALID_ARGUMENT', 'the value of a row must not be undefined: delete the key instead', {
        key,
      })
    }
    const ttlMs = options.ttl === undefined ? this.ttlMs : toMs(options.ttl, 'ttl')
    const expiresAt = ttlMs === undefined ? undefined : this.now + ttlMs
    this.writes.set(key, { value, isDeleted: false, expiresAt })
  }

  delete(key: string): void {
    this.#check(key)
    this.writes.set(key, { value: undefined, isDeleted: true, expiresAt: undefined })
  }

  async *entries(range: KeyedRange = {}): AsyncGenerator<[string, V]> {
    this.#check('')
    const { limit, ...whole } = range
    let left = limit ?? Number.POSITIVE_INFINITY
    const isFirst = (a: string, b: string) => (range.reverse ? a > b : a < b)
    const rows = this.#view.entries(whole)
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

  offset(source: string): Offset | undefined {
    return this.offsets.get(source) ?? this.#view.offset(source)
  }

  advance(source: string, offset: Offset): void {
    this.#check('')
    checkAdvance(source, this.offset(source), offset)
    this.offsets.set(source, offset)
  }

  /** Merges the writes of a later transaction. */
  take(later: PagedBuffer<V>): void {
    for (const [key, write] of later.writes) this.writes.set(key, write)
    for (const [source, offset] of later.offsets) this.offsets.set(source, offset)
  }

  /** Ends the transaction: further reads and writes are refused. */
  end(): void {
    this.#isOver = true
  }

  #check(key: string): void {
    if (this.#isOver) throw new RepriseError('CLOSED', 'the transaction is over')
    if (typeof key !== 'string') throw new RepriseError('INVALID_ARGUMENT', 'a key of a table must be a string')
  }
}
