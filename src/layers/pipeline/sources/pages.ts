// An API that returns its records page by page, each with the cursor of the next. A position is the cursor of a page and the
// number of its records already returned, so a page must return the same records when it is requested again.

import { RepriseError } from '../../../core/errors.ts'
import { checkOptions } from '../../../core/options.ts'
import { type CallPolicy, callPolicyNames, checkCallPolicy } from '../../../core/retry/call-policy.ts'
import { checkFunction } from '../../../core/synchronous.ts'
import { Caller } from '../../../engine/base/call-with-policy.ts'
import { hostOf } from '../../../engine/host/host.ts'
import type { Source, SourceBatch, SourceReader } from '../source.ts'

export interface SourcePage<T, Cursor> {
  readonly items: readonly T[]
  /** The cursor of the next page; null: there is none. */
  readonly next: Cursor | null
}

interface Place<Cursor> {
  /** Null: the first page. */
  readonly cursor: Cursor | null
  readonly given: number
}

export type AskPage<T, Cursor> = (cursor: Cursor | null, signal: AbortSignal) => Promise<SourcePage<T, Cursor>>

/** @example pageSource<Order, string>((cursor, signal) => fetchOrders({ after: cursor, signal }), { timeout: '30s' }) */
export function pageSource<T, Cursor>(page: AskPage<T, Cursor>, options: CallPolicy = {}): Source<T> {
  checkOptions('pageSource', options, new Set(callPolicyNames))
  checkFunction(page, 'pageSource()')
  checkCallPolicy(options)
  return {
    kind: 'pages',
    async open(from, { engine, signal }) {
      const place = (from?.get('') ?? { cursor: null, given: 0 }) as Place<Cursor>
      if (typeof place !== 'object' || !Number.isSafeInteger(place.given)) {
        throw new RepriseError(
          'INVALID_ARGUMENT',
          'the position of this source must be a page: another source used its name before',
        )
      }
      const { clock, random } = hostOf(engine)
      const caller = new Caller(options, { clock, random, ending: signal })
      const ask = (cursor: Cursor | null) => caller.call((_, ending) => page(cursor, ending))
      return new PageReader<T, Cursor>(ask, place, signal)
    },
  }
}

class PageReader<T, Cursor> implements SourceReader<T> {
  readonly #ask: (cursor: Cursor | null) => Promise<SourcePage<T, Cursor>>
  readonly #signal: AbortSignal
  #place: Place<Cursor>
  #page: SourcePage<T, Cursor> | null = null
  #isEnded = false

  constructor(
    ask: (cursor: Cursor | null) => Promise<SourcePage<T, Cursor>>,
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
    try {
      this.#page ??= await this.#ask(this.#place.cursor)
    } catch (error) {
      // The run ended during the request for a page.
      if (this.#signal.aborted) return null
      throw error
    }
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
