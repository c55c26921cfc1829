// Secondary indexes of an open table: sorted in memory, built from the rows on first use, and updated with every change. They
// are derived, so no checkpoint contains them, and a changed index function needs no migration.
//
// An index key is the term, a NUL, and the row's key; NULs inside a term are escaped so that terms cannot collide.

import { RepriseError } from '../../core/errors.ts'
import { Keyed, type KeyedRange } from '../../core/keyed-state/keyed.ts'
import { refuseThenable } from '../../core/synchronous.ts'

export type Term = string | number

/** The terms under which a row is indexed; undefined: none. */
export type IndexFunction<V> = (value: V, key: string) => Term | readonly Term[] | undefined

/** `from` inclusive, `to` exclusive. */
export interface TermRange {
  readonly from?: Term
  readonly to?: Term
  readonly reverse?: boolean
  readonly limit?: number
}

export class Index<V> {
  readonly #terms: IndexFunction<V>
  readonly #keys = new Keyed<string>()

  constructor(terms: IndexFunction<V>, rows: Iterable<[string, V]>) {
    this.#terms = terms
    for (const [key, value] of rows) this.#each(value, key, (place) => this.#keys.set(place, key))
  }

  changed(key: string, before: V | undefined, after: V | undefined): void {
    if (before !== undefined) this.#each(before, key, (place) => this.#keys.delete(place))
    if (after !== undefined) this.#each(after, key, (place) => this.#keys.set(place, key))
  }

  /** Index positions and row keys, for one term in key order, or for a range of terms. */
  *find(term: Term | TermRange): IterableIterator<readonly [place: string, key: string]> {
    if (typeof term !== 'object' || term === null) {
      yield* this.#keys.entries({ prefix: `${encodeTerm(term)}\u0000` })
      return
    }
    const range = term
    const bounds: KeyedRange = {
      ...(range.from !== undefined && { from: encodeTerm(range.from) }),
      ...(range.to !== undefined && { to: encodeTerm(range.to) }),
      ...(range.reverse !== undefined && { reverse: range.reverse }),
      ...(range.limit !== undefined && { limit: range.limit }),
    }
    yield* this.#keys.entries(bounds)
  }

  /** True if the row with this value is at this position of the index. */
  isAt(place: string, key: string, value: V): boolean {
    let isThere = false
    this.#each(value, key, (each) => {
      isThere ||= each === place
    })
    return isThere
  }

  #each(value: V, key: string, call: (place: string) => void): void {
    const terms = this.#terms(value, key)
    refuseThenable(
      terms,
      'the function of an index',
      'compute the term before the row is written, and keep it in the row',
    )
    if (terms === undefined) return
    for (const term of Array.isArray(terms) ? (terms as readonly Term[]) : [terms as Term]) {
      call(`${encodeTerm(term)}\u0000${key}`)
    }
  }
}

/** Text sorts after all numbers; numbers sort numerically. */
function encodeTerm(term: Term): string {
  if (typeof term === 'string')
    return `t${term.replaceAll('\u0001', '\u0001\u0002').replaceAll('\u0000', '\u0001\u0001')}`
  if (typeof term !== 'number' || Number.isNaN(term)) {
    throw new RepriseError('INVALID_ARGUMENT', 'the term of an index must be a string or a number')
  }
  const view = new DataView(new ArrayBuffer(8))
  view.setFloat64(0, term === 0 ? 0 : term)
  let bits = view.getBigUint64(0)
  bits = bits >> 63n ? ~bits & 0xffff_ffff_ffff_ffffn : bits | (1n << 63n)
  return `n${bits.toString(16).padStart(16, '0')}`
}
