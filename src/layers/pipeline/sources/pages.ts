// An API that gives its records page by page, each with the cursor of the next. A position is the cursor of a page and how
// many of its records were handed on, so a page must give the same when it is asked for again.

import { RepriseError } from '../../../core/errors.ts'
import type { Source, SourceBatch, SourceReader } from '../source.ts'

export interface SourcePage<T, Cursor> {
  readonly items: readonly T[]
  /** Of the next page; null: there is none. */
  readonly next: Cursor | null
}

interface Place<Cursor> {
  /** Null: the first page. */
  readonly cursor: Cursor | null
  readonly given: number
}

/** @example paged<Order, string>((cursor, signal) => fetchOrders({ after: cursor, signal })) */
export function paged<T, Cursor>(
  page: (cursor: Cursor | null, signal: AbortSignal) => Promise<SourcePage<T, Cursor>>,
): Source<T> {
  return {
    async open(from, { signal }) {
      const place = (from?.get('') ?? { cursor: null, given: 0 }) as Place<Cursor>
      if (typeof place !== 'object' || !Number.isSafeInteger(place.given)) {
        throw new RepriseError(
          'INVALID_ARGUMENT',
          'the position of this source must be a page: another source had its name before',
        )
      }
      return new PageReader<T, Cursor>(page, place, signal)
    },
  }
}

class PageReader<T, Cursor> implements SourceReader<T> {
  readonly #ask: (cursor: Cursor | null, signal: AbortSignal) => Promise<SourcePage<T, Cursor>>
  readonly #signal: AbortSignal
  #place: Place<Cursor>
  #page: SourcePage<T, Cursor> | null = null
  #isEnded = false

  constructor(
    ask: (cursor: Cursor | null, signal: AbortSignal) => Promise<SourcePage<T, Cursor>>,
    place: Place<Cursor>,
    signal: AbortSignal,
  ) {
    this.#ask = ask
    this.#place = place
    this.#signal = signal
  }

  partitions(): readonly string[] {
    return ['']
  }

  async read(max: number): Promise<SourceBatch<T> | null> {
    if (this.#isEnded || this.#signal.aborted) return null
    this.#page ??= await this.#ask(this.#place.cursor, this.#signal)
    const { items, next } = this.#page
    const values = items.slice(this.#place.given, this.#place.given + max)
    const given = this.#place.given + values.length
    if (given < items.length) this.#place = { cursor: this.#place.cursor, given }
    else if (next === null) {
      this.#place = { cursor: this.#place.cursor, given }
      this.#isEnded = true
    } else {
      this.#place = { cursor: next, given: 0 }
      this.#page = null
    }
    return { partition: '', values, position: this.#place }
  }

  async close(): Promise<void> {}
}
