// The state of a table and the entries that make it.
//
//   w { s?, d?, x?, o?, by? }  one or more whole transactions: s = [key, value, …] set, d = keys deleted,
//                          x = [key, expiry ms, …] of keys in s, o = [source, offset, …]; by: editor in a fork
//   p { t, n, … }          part n of transaction t that is too large for one entry; fields as in w
//   c { t, n }             commit of t, which has n parts: they are applied now, together
//   u { t }                undo of t: its parts are dropped
//
// Log first: a value is in the state only after its entry is durable. Parts without a commit are not in the rows at all, so
// an undo only drops them.

import { RepriseError } from '../../core/errors.ts'
import { Keyed } from '../../core/keyed-state/keyed.ts'
import type { Entry } from '../../engine/history/history.ts'

export type Offset = string | number

export interface Ops {
  readonly s?: readonly unknown[]
  readonly d?: readonly string[]
  readonly x?: readonly (string | number)[]
  readonly o?: readonly Offset[]
  readonly by?: string
}

/** Called for every change of a row while the table is open, just before the change is made. */
export interface RowObserver {
  /** `after` undefined: the row is deleted. */
  changed(key: string, after: unknown): void
  expires(key: string, before: number | undefined, after: number | undefined): void
}

export const observer: unique symbol = Symbol('reprise.table.observer')

export interface TableState<V> {
  readonly rows: Keyed<V>
  /** Expiry of rows, by key; ms since 1970. */
  readonly expiry: Keyed<number>
  /** Parts of transactions without a commit yet: "<t>/<n>". */
  readonly pending: Keyed<Ops>
  /** The offset of each source; changes in the same commit as the rows. */
  readonly offsets: Keyed<Offset>
  [observer]?: RowObserver
}

export function initialState<V>(): TableState<V> {
  return { rows: new Keyed(), expiry: new Keyed(), pending: new Keyed(), offsets: new Keyed() }
}

export function applyEntry<V>(state: TableState<V>, entry: Entry): void {
  const { type, data } = entry
  switch (type) {
    case 'w':
      applyOps(state, data as Ops)
      return
    case 'p': {
      const { t, n, ...ops } = data as Ops & { readonly t: string; readonly n: number }
      state.pending.set(partKey(t, n), ops)
      return
    }
    case 'c': {
      const { t, n } = data as { readonly t: string; readonly n: number }
      const parts = partsOf(state, t)
      if (parts.length !== n)
        throw new RepriseError('FOLD_FAILED', `transaction ${t} has ${parts.length} of ${n} parts`)
      for (const [key, ops] of parts) {
        applyOps(state, ops)
        state.pending.delete(key)
      }
      return
    }
    case 'u':
      for (const [key] of partsOf(state, (data as { readonly t: string }).t)) state.pending.delete(key)
      return
    default:
      throw new RepriseError('FOLD_FAILED', `a table has no entries of type ${type}`, { type })
  }
}

/** Transactions that have neither commit nor undo. */
export function unfinished<V>(state: TableState<V>): string[] {
  const found = new Set<string>()
  for (const key of state.pending.keys()) found.add(key.slice(0, key.lastIndexOf('/')))
  return [...found]
}

function applyOps<V>(state: TableState<V>, ops: Ops): void {
  const { rows, expiry, offsets, [observer]: observed } = state
  const { s = [], d = [], x = [], o = [] } = ops
  for (const key of d) {
    observed?.changed(key, undefined)
    rows.delete(key)
    setExpiry(expiry, key, undefined, observed)
  }
  for (let i = 0; i < s.length; i += 2) {
    const key = s[i] as string
    const value = s[i + 1] as V
    observed?.changed(key, value)
    rows.set(key, value)
    if (expiry.size > 0) setExpiry(expiry, key, undefined, observed)
  }
  for (let i = 0; i < x.length; i += 2) setExpiry(expiry, x[i] as string, x[i + 1] as number, observed)
  for (let i = 0; i < o.length; i += 2) offsets.set(o[i] as string, o[i + 1]!)
}

function setExpiry(
  expiry: Keyed<number>,
  key: string,
  at: number | undefined,
  observed: RowObserver | undefined,
): void {
  if (at === undefined && expiry.size === 0) return
  const before = expiry.get(key)
  if (before === at) return
  observed?.expires(key, before, at)
  if (at === undefined) expiry.delete(key)
  else expiry.set(key, at)
}

function partKey(t: string, n: number): string {
  return `${t}/${String(n).padStart(8, '0')}`
}

function partsOf<V>(state: TableState<V>, t: string): [string, Ops][] {
  return [...state.pending.entries({ prefix: `${t}/` })]
}
