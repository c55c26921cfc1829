// Sources of items. Every kind (an array, an iterable, an async iterable, a generator that takes a cursor, a paged
// function, or a source made by one of our helpers) is read through one small reader interface. A chunk may carry the
// position after it, from which reading resumes once its items, and all before them, are settled.

import { RepriseError } from '../../core/errors.ts'
import { checkFunction, checkFunctions } from '../../core/synchronous.ts'
import type { Engine } from '../../engine/model/definition.ts'
import type { Receipt } from './queues/held-message.ts'

export interface Chunk<T> {
  readonly items: readonly T[]
  /** The source's keys, if they are better than keys from the items. */
  readonly keys?: readonly string[]
  /** By index, for a queue: what the source expects back for each item. */
  readonly receipts?: readonly Receipt[]
  /** The position to resume from after this chunk; absent if there is none yet. */
  readonly after?: { readonly position: unknown }
  /** The number of its first items that a failed reader already yielded. */
  readonly repeated?: number
  /** By index: why an item could not be read. `items` holds its stored form, and it becomes a dead letter at once. */
  readonly unread?: ReadonlyMap<number, unknown>
}

export interface Reader<T> {
  /** Returns null at the end. */
  next(): Promise<Chunk<T> | null> | Chunk<T> | null
  close?(): Promise<void> | void
  /** The position of a chunk is durable: every item before it is settled. Called for jobs with one shard. */
  reached?(position: unknown): void
  /** The total number of items, if known; may become known while reading. */
  readonly total?: number | null
  /** The part of the source that was read, 0 to 1, if the items cannot be counted in advance. */
  readonly fraction?: number | null
}

export interface ReadContext {
  readonly signal: AbortSignal
  readonly input: unknown
  readonly engine: Engine
  readonly timeline: string
  /** For a consumer: keys contain a digest of the entry. False for older consumers, whose keys must not change. */
  readonly entryKeys?: boolean
  /** The most items in flight at once. */
  readonly slots?: number
}

/** A source with positions. Make one with lines(), jsonLines(), csv(), pages(), keyRange(), or implement this interface. */
export interface JobSource<T> {
  readonly kind: string
  open(position: unknown, context: ReadContext): Promise<Reader<T>> | Reader<T>
  /** The position stays valid after the end: the next round resumes from it (a file or table that only grows). */
  readonly goesOn?: boolean
  /** False: the source ignores the input of run(), which then takes its options at once. */
  readonly takesInput?: boolean
  /** The source can be read only once (a stream, an iterator): a failure cannot be retried. */
  readonly once?: boolean
  /**
   * Items have receipts, and `close` of the reader is called after the items in flight are settled. A job over such a source has
   * one shard.
   */
  readonly acknowledges?: boolean
  /** Reads an item of `unread` again. Returns null if it does not belong to this job; throws if it is still unreadable. */
  readAgain?(stored: unknown): T | null
}

/** A source that ignores the input of run(). */
export interface PlainSource<T> extends JobSource<T> {
  readonly takesInput: false
}

/** The input that run() accepts for a source: none for a list, an iterable or a plain source. */
// biome-ignore lint/suspicious/noExplicitAny: only whether it is a function matters.
export type SourceInput<Given> = Given extends ((...given: any) => unknown) | { open(...given: any): unknown }
  ? Given extends { readonly takesInput: false }
    ? void
    : unknown
  : void

/** The context of a source function, beside the cursor. */
export interface JobSourceContext {
  readonly signal: AbortSignal
  /** The input of run(). */
  readonly input: unknown
  /** Every item yielded so far is before this cursor: once they are settled, a resumed run starts here. */
  cursor(next: unknown): void
  /** Sets the total number of items, for the progress bar. */
  total(count: number): void
}

/** A page of a paged function. Without `next` it was the last. */
export interface PageOf<T> {
  readonly items: readonly T[]
  readonly next?: unknown
  readonly total?: number
}

export type Produced<T> = Iterable<T> | AsyncIterable<T> | PageOf<T>

// A method, so that a function that declares its cursor as a string is accepted too.
export type SourceFunction<T> = {
  read(cursor: unknown, context: JobSourceContext): Produced<T> | Promise<Produced<T>>
}['read']

export type SourceLike<T> = Iterable<T> | AsyncIterable<T> | JobSource<T> | SourceFunction<T>

const chunkItems = 512

/** @example pages(async (cursor?: string) => { const r = await api.list(cursor); return { items: r.items, next: r.next } }) */
export function pages<T, Cursor = string>(
  fetchPage: (cursor: Cursor | undefined, context: JobSourceContext) => Promise<PageOf<T>> | PageOf<T>,
): JobSource<T> {
  checkFunction(fetchPage, 'pages()')
  return { kind: 'pages', open: (position, context) => new FunctionReader(fetchPage, position, context) }
}

/**
 * Rows of a table in the order of a key, one range at a time.
 * @example
 * const page = 'SELECT * FROM papers WHERE id > $1 ORDER BY id LIMIT $2'
 * keyRange({ after: (id, limit) => db.query(page, [id ?? 0, limit]), key: (row) => row.id })
 */
export function keyRange<T, Key>(options: {
  /** Returns rows whose key is above this one (undefined: from the start), in order, at most `limit`. */
  readonly after: (key: Key | undefined, limit: number) => Promise<readonly T[]> | readonly T[]
  readonly key: (row: T) => Key
  readonly limit?: number
  /** Start the next round at the beginning, to see changed rows. Default: false, it continues after the last row. */
  readonly again?: boolean
}): PlainSource<T> {
  checkFunctions('keyRange', options, ['after', 'key'])
  const { after, key, limit = 500, again = false } = options
  return {
    kind: 'key range',
    takesInput: false,
    goesOn: !again,
    open(position) {
      let at = position as Key | undefined
      return {
        async next() {
          const items = await after(at, limit)
          if (items.length === 0) return null
          at = key(items[items.length - 1]!)
          return { items, after: { position: at } }
        },
      }
    },
  }
}

export function toSource<T>(given: SourceLike<T>): JobSource<T> {
  if (given === undefined || given === null) throw noSource()
  if (typeof given === 'function') {
    const read = given as SourceFunction<T>
    return { kind: 'function', open: (position, context) => new FunctionReader(read, position, context) }
  }
  if (Array.isArray(given)) return { kind: 'array', takesInput: false, open: () => arrayReader(given as readonly T[]) }
  if (isSource<T>(given)) return given
  // An iterable does not show whether it can be read again: a second read of a broken stream would look like its end.
  const onceOnly = { takesInput: false, once: true }
  if (isIterable<T>(given)) return { kind: 'iterable', ...onceOnly, open: () => iterableReader(given) }
  if (isAsyncIterable<T>(given)) return { kind: 'async iterable', ...onceOnly, open: () => asyncReader(given) }
  throw noSource()
}

function noSource(): RepriseError {
  return new RepriseError(
    'INVALID_ARGUMENT',
    'the source of a job must be an array, an iterable, an async iterable, a function, or made by lines(), jsonLines(), csv(), pages() or keyRange()',
  )
}

function arrayReader<T>(items: readonly T[]): Reader<T> {
  let at = 0
  return {
    total: items.length,
    next() {
      if (at >= items.length) return null
      const chunk = items.slice(at, at + chunkItems)
      at += chunk.length
      return { items: chunk }
    },
  }
}

function iterableReader<T>(given: Iterable<T>): Reader<T> {
  const iterator = given[Symbol.iterator]()
  let isOver = false
  const { size, length } = given as { size?: unknown; length?: unknown }
  return {
    total: typeof size === 'number' ? size : typeof length === 'number' ? length : null,
    next() {
      const items: T[] = []
      while (!isOver && items.length < chunkItems) {
        const step = iterator.next()
        if (step.done) isOver = true
        else items.push(step.value)
      }
      return items.length > 0 ? { items } : null
    },
    close: () => void (isOver || iterator.return?.()),
  }
}

function asyncReader<T>(given: AsyncIterable<T>): Reader<T> {
  const iterator = given[Symbol.asyncIterator]()
  let isOver = false
  return {
    async next() {
      const step = await iterator.next()
      if (!step.done) return { items: [step.value] }
      isOver = true
      return null
    },
    close: async () => {
      if (!isOver) await iterator.return?.()
    },
  }
}

/** A user's function: it returns an iterable, or one page after another. */
class FunctionReader<T> implements Reader<T> {
  readonly #read: SourceFunction<T>
  readonly #context: JobSourceContext
  #position: unknown
  #inner: Reader<T> | null = null
  #isPaged = false
  #isOver = false
  #moved: { readonly position: unknown } | null = null
  /** A chunk that was read already, and is returned after the cursor before it. */
  #held: Chunk<T> | null | undefined
  total: number | null = null

  constructor(read: SourceFunction<T>, position: unknown, context: ReadContext) {
    this.#read = read
    this.#position = position
    this.#context = {
      signal: context.signal,
      input: context.input,
      cursor: (next) => {
        this.#moved = { position: next }
      },
      total: (count) => {
        this.total = count
      },
    }
  }

  async next(): Promise<Chunk<T> | null> {
    if (this.#isOver) return null
    if (!this.#inner && !this.#isPaged) {
      const first = await this.#read(this.#position, this.#context)
      if (isPage<T>(first)) {
        this.#isPaged = true
        return this.#page(first)
      }
      this.#inner = readerOf(first)
    }
    if (this.#isPaged) return this.#page((await this.#read(this.#position, this.#context)) as PageOf<T>)
    return await this.#step(this.#inner!)
  }

  async close(): Promise<void> {
    await this.#inner?.close?.()
  }

  #page(page: PageOf<T>): Chunk<T> | null {
    if (!isPage(page))
      throw new RepriseError('INVALID_ARGUMENT', 'a paged source must return { items, next } each time')
    if (typeof page.total === 'number') this.total = page.total
    if (page.next === undefined || page.next === null) this.#isOver = true
    else if (page.items.length === 0 && page.next === this.#position) {
      throw new RepriseError(
        'INVALID_ARGUMENT',
        'a paged source returned an empty page with the cursor of that same page',
        {},
      )
    }
    this.#position = page.next
    return this.#isOver ? { items: page.items } : { items: page.items, after: { position: page.next } }
  }

  /**
   * A cursor that the generator set before it yielded an item covers the items before that one, so the cursor is
   * returned first.
   */
  async #step(inner: Reader<T>): Promise<Chunk<T> | null> {
    if (this.#held !== undefined) {
      const held = this.#held
      this.#held = undefined
      return held
    }
    const chunk = await inner.next()
    const moved = this.#moved
    if (!moved) return chunk
    this.#moved = null
    this.#held = chunk
    return { items: [], after: moved }
  }
}

function readerOf<T>(given: Iterable<T> | AsyncIterable<T>): Reader<T> {
  if (Array.isArray(given)) return arrayReader(given as readonly T[])
  // One item at a time: a cursor must not be visible before the items that were yielded before it.
  if (isIterable<T>(given)) return oneByOne(given)
  if (isAsyncIterable<T>(given)) return asyncReader(given)
  throw new RepriseError(
    'INVALID_ARGUMENT',
    'a source function must return an iterable, an async iterable, or { items, next }',
  )
}

function oneByOne<T>(given: Iterable<T>): Reader<T> {
  const iterator = given[Symbol.iterator]()
  return {
    next() {
      const step = iterator.next()
      return step.done ? null : { items: [step.value] }
    },
    close: () => void iterator.return?.(),
  }
}

function isPage<T>(value: unknown): value is PageOf<T> {
  return typeof value === 'object' && value !== null && Array.isArray((value as { items?: unknown }).items)
}

function isSource<T>(value: object): value is JobSource<T> {
  return typeof (value as { open?: unknown }).open === 'function'
}

function isIterable<T>(value: object): value is Iterable<T> {
  return typeof (value as { [Symbol.iterator]?: unknown })[Symbol.iterator] === 'function'
}

function isAsyncIterable<T>(value: object): value is AsyncIterable<T> {
  return typeof (value as { [Symbol.asyncIterator]?: unknown })[Symbol.asyncIterator] === 'function'
}
