// A transaction in progress: reads return the current table plus the transaction's own writes; writes are buffered. Reads are
// recorded, so that a transaction that waited can be validated before it is written.

import { type Duration, toMs } from '../../core/duration.ts'
import { RepriseError } from '../../core/errors.ts'
import { Keyed, type KeyedRange } from '../../core/keyed-state/keyed.ts'
import { checkOptions, namesOf } from '../../core/options.ts'
import type { Offset } from './state.ts'

export interface SetOptions {
  /** The row expires after this time. */
  readonly ttl?: Duration
}

export const knownSet = namesOf<SetOptions>()('ttl')

export interface Write {
  /** Undefined: deleted. */
  readonly value: unknown
  readonly isDeleted: boolean
  readonly expiresAt: number | undefined
}

/** The part of a transaction's source that needs no page. */
export interface ViewHead {
  offset(source: string): Offset | undefined
  readonly now: number
  readonly ttlMs: number | undefined
}

/** The source of a transaction's reads: committed rows, or those plus writes about to be committed. */
export interface View<V> extends ViewHead {
  get(key: string): V | undefined
  entries(range: KeyedRange): IterableIterator<[string, V]>
}

/** The writing half of a transaction. */
export interface TransactionWrites<V> {
  set(key: string, value: V, options?: SetOptions): void
  delete(key: string): void
  /** The offset of a source: stored with the rows, in the same commit. It never decreases. */
  offset(source: string): Offset | undefined
  advance(source: string, offset: Offset): void
}

/** The argument of the function passed to `transaction`. */
export interface Transaction<V> extends TransactionWrites<V> {
  get(key: string): V | undefined
  has(key: string): boolean
  entries(range?: KeyedRange): IterableIterator<[string, V]>
}

/** Buffers the writes of a transaction until its end. */
export class WriteBuffer<V, From extends ViewHead> implements TransactionWrites<V> {
  readonly writes = new Keyed<Write>()
  readonly offsets = new Map<string, Offset>()
  protected readonly view: From
  #isOver = false

  constructor(view: From) {
    this.view = view
  }

  set(key: string, value: V, options: SetOptions = {}): void {
    checkOptions('set', options, knownSet)
    this.check(key)
    if (value === undefined) {
      const what = 'the value of a row must not be undefined: delete the key instead'
      throw new RepriseError('INVALID_ARGUMENT', what, { key })
    }
    const ttlMs = options.ttl === undefined ? this.view.ttlMs : toMs(options.ttl, 'ttl')
    const expiresAt = ttlMs === undefined ? undefined : this.view.now + ttlMs
    this.writes.set(key, { value, isDeleted: false, expiresAt })
  }

  delete(key: string): void {
    this.check(key)
    this.writes.set(key, { value: undefined, isDeleted: true, expiresAt: undefined })
  }

  offset(source: string): Offset | undefined {
    return this.offsets.get(source) ?? this.view.offset(source)
  }

  advance(source: string, offset: Offset): void {
    this.check('')
    checkAdvance(source, this.offset(source), offset)
    this.offsets.set(source, offset)
  }

  /** Ends the transaction: further reads and writes are refused. */
  end(): void {
    this.#isOver = true
  }

  protected check(key: string): void {
    if (this.#isOver) throw new RepriseError('CLOSED', 'the transaction has ended')
    if (typeof key !== 'string') throw new RepriseError('INVALID_ARGUMENT', 'a key of a table must be a string')
  }
}

export class Buffer<V> extends WriteBuffer<V, View<V>> implements Transaction<V> {
  readonly reads = new Map<string, V | undefined>()
  readonly ranges: { readonly range: KeyedRange; readonly seen: readonly (readonly [string, V])[] }[] = []

  get(key: string): V | undefined {
    this.check(key)
    const own = this.writes.get(key)
    if (own) return own.value as V | undefined
    const value = this.view.get(key)
    if (!this.reads.has(key)) this.reads.set(key, value)
    return value
  }

  has(key: string): boolean {
    return this.get(key) !== undefined
  }

  *entries(range: KeyedRange = {}): IterableIterator<[string, V]> {
    this.check('')
    const { limit, ...whole } = range
    const seen: [string, V][] = []
    // Recorded as far as it was read: an unread rest cannot conflict.
    const record = { range: whole, seen }
    this.ranges.push(record)
    let left = limit ?? Number.POSITIVE_INFINITY
    for (const [key, value] of merged(
      noting(this.view.entries(whole), seen),
      this.writes.entries(whole),
      range.reverse ?? false,
    )) {
      if (left-- <= 0) {
        Object.assign(record, { range: { ...whole, ...(range.reverse ? { from: key } : { to: key }) } })
        seen.splice(0, seen.length, ...seen.filter(([k]) => (range.reverse ? k >= key : k < key)))
        return
      }
      yield [key, value]
    }
  }

  /** True if its reads would return the same from this view. */
  isValid(view: View<V>): boolean {
    for (const [key, value] of this.reads) if (!Object.is(view.get(key), value)) return false
    for (const { range, seen } of this.ranges) {
      let at = 0
      for (const [key, value] of view.entries(range)) {
        const was = seen[at++]
        if (!was || was[0] !== key || !Object.is(was[1], value)) return false
      }
      if (at !== seen.length) return false
    }
    return true
  }
}

/** The offset of a source never decreases. */
export function checkAdvance(source: string, before: Offset | undefined, offset: Offset): void {
  if (typeof offset !== 'string' && !Number.isFinite(offset)) {
    const what = `the offset of ${source} must be a string or a finite number (got ${String(offset)})`
    throw new RepriseError('INVALID_ARGUMENT', what, { source })
  }
  if (before === undefined || (typeof before === typeof offset && offset >= before)) return
  const what = `the offset of ${source} is at ${before} and cannot move back to ${offset}`
  throw new RepriseError('CONFLICT', what, { source, before, offset })
}

function* noting<V>(entries: Iterable<[string, V]>, seen: [string, V][]): Generator<[string, V]> {
  for (const entry of entries) {
    seen.push(entry)
    yield entry
  }
}

/** Rows overlaid with writes, in key order. */
export function* merged<V>(
  rows: Iterator<[string, V]>,
  writes: Iterator<[string, Write]>,
  reverse: boolean,
): Generator<[string, V]> {
  let row = rows.next()
  let write = writes.next()
  const isFirst = (a: string, b: string) => (reverse ? a > b : a < b)
  while (!row.done || !write.done) {
    if (write.done || (!row.done && isFirst(row.value[0], write.value[0]))) {
      if (!row.done) yield row.value
      row = rows.next()
      continue
    }
    const [key, { value, isDeleted }] = write.value
    if (!row.done && row.value[0] === key) row = rows.next()
    if (!isDeleted) yield [key, value as V]
    write = writes.next()
  }
}
