// Lists that grow: finds how much of a channel's new array equals the stored array of its parent, so that only the rest is
// written. Elements that this process read or wrote before are recognised by identity; among those the newest, and in
// rotation some of the older ones, are also compared by their bytes, so that a change made in place is detected.

import { equalBytes } from '../../core/coordinate.ts'
import { Keyed } from '../../core/keyed-state/keyed.ts'
import type { ThreadState } from './fold.ts'
import type { LeafDraft } from './leaves.ts'
import type { Encoded, Portable } from './portable.ts'
import type { NewValue } from './thread-entries.ts'

interface KnownList {
  readonly items: readonly Uint8Array[]
  /** Places of the leaves that the items refer to. */
  readonly leaves: readonly number[]
  /** Lists that this one extends and contains completely at its start, with their lengths. */
  readonly beginnings: ReadonlyMap<string, number>
  /** The elements as the graph holds them; null if the graph did not get them from this process. */
  live: readonly unknown[] | null
}

/** `same`: the parent's value already is this list. `refs` are the leaves of added items, whose places are not known yet. */
export type PreparedList =
  | { readonly same: string; readonly list: ListItems; readonly refs: readonly number[] }
  | { readonly same: null; readonly value: NewValue; readonly list: ListItems; readonly refs: readonly number[] }

/** The encoded elements of a stored list, and the places of at least the leaves that they refer to. */
export type ListItems = Pick<KnownList, 'items' | 'leaves'>

const nothing: ListItems = { items: [], leaves: [] }
const noLists: ReadonlyMap<string, KnownList> = new Map()
const knownMax = 16
/** About the number of values in a page. */
const stepsPerPage = 256
const newestCompared = 32
const olderCompared = 32

export class Lists {
  readonly #portable: Portable
  readonly #known = new Map<string, KnownList>()
  #turn = 0

  constructor(portable: Portable) {
    this.#portable = portable
  }

  items(state: ThreadState, id: string): ListItems {
    const known = this.#known.get(id)
    if (known) return known
    // Listing goes from the newest checkpoint back: each needs the start of a list that was just read.
    for (const { items, leaves, beginnings } of this.#known.values()) {
      const length = beginnings.get(id)
      if (length !== undefined) return { items: items.slice(0, length), leaves }
    }
    const collected = collect(state, id, this.#known)
    this.#remember(id, { ...collected, live: null })
    return collected
  }

  /** From now on the graph holds these objects as the elements of the list. */
  hold(id: string, { items, leaves }: ListItems, live: readonly unknown[]): void {
    const beginnings = this.#known.get(id)?.beginnings ?? new Map<string, number>()
    this.#remember(id, { items, leaves, beginnings, live: [...live] })
  }

  forget(): void {
    this.#known.clear()
  }

  prepare(state: ThreadState, baseId: string | undefined, next: readonly unknown[], draft: LeafDraft): PreparedList {
    const stored = baseId === undefined ? undefined : state.values.get(baseId)
    const base = stored && 'items' in stored ? stored : null
    const before = base ? this.items(state, baseId!) : nothing
    const live = base ? (this.#known.get(baseId!)?.live ?? null) : null
    const { keep, encoded } = this.#compare(before.items, live, next)
    if (base && keep === before.items.length && keep === next.length) return { same: baseId!, list: before, refs: [] }
    const depth = (base?.depth ?? 0) + 1
    // A list that repeatedly shrinks and grows would depend on more and more other lists: it is then stored anew.
    const from = depth > 2 * next.length + 64 ? 0 : keep
    const added = next.slice(from).map((item, i) => encoded.get(from + i) ?? this.#portable.encode(item))
    const items = added.map(({ bytes }) => bytes)
    const refs = [...new Set(added.flatMap(({ leaves }) => draft.refs(leaves)))]
    if (!base || from === 0)
      return { same: null, value: [1, null, 0, items, 1, refs], list: { items, leaves: [] }, refs }
    // After a cut, the list in memory keeps the leaves of removed items until they are far more than it needs.
    const known = before.leaves.length > 4 * from + 256 ? noLists : this.#known
    const kept = from === before.items.length ? before : collect(state, baseId!, known, from)
    const list = { items: [...kept.items, ...items], leaves: kept.leaves }
    return { same: null, value: [1, baseId!, from, items, depth, refs], list, refs }
  }

  /** The number of leading elements that equal the stored ones, and the elements encoded for the comparison. */
  #compare(
    before: readonly Uint8Array[],
    live: readonly unknown[] | null,
    next: readonly unknown[],
  ): { readonly keep: number; readonly encoded: ReadonlyMap<number, Encoded> } {
    const encoded = new Map<number, Encoded>()
    const length = Math.min(before.length, next.length)
    const isEqual = (i: number) => {
      const made = this.#portable.encode(next[i])
      encoded.set(i, made)
      return equalBytes(made.bytes, before[i]!)
    }
    const windowStart = length === 0 ? 0 : this.#turn % length
    this.#turn += olderCompared
    let keep = 0
    while (keep < length) {
      const isKnown = live !== null && keep < live.length && Object.is(live[keep], next[keep])
      const isDue = keep >= length - newestCompared || (keep - windowStart + length) % length < olderCompared
      if (!(isKnown && !isDue) && !isEqual(keep)) break
      keep += 1
    }
    return { keep, encoded }
  }

  #remember(id: string, list: KnownList): void {
    this.#known.delete(id)
    this.#known.set(id, list)
    if (this.#known.size > knownMax) this.#known.delete(this.#known.keys().next().value!)
  }
}

function collect(
  state: ThreadState,
  id: string,
  known: ReadonlyMap<string, KnownList>,
  wantedMax = Number.POSITIVE_INFINITY,
): Omit<KnownList, 'live'> {
  const parts: (readonly Uint8Array[])[] = []
  const leaves: (readonly number[])[] = []
  const beginnings = new Map<string, number>()
  let wanted = wantedMax
  let steps = 0
  for (let at: string | null = id; at !== null && wanted > 0; ) {
    const cached = known.get(at)
    if (cached) {
      parts.push(cached.items.slice(0, wanted))
      leaves.push(cached.leaves)
      if (cached.items.length <= wanted) {
        beginnings.set(at, cached.items.length)
        for (const [each, length] of cached.beginnings) beginnings.set(each, length)
      }
      break
    }
    // A long list goes far back: the more of it was walked, the more pages are requested at once.
    Keyed.need(state.values, [at], Math.floor(steps++ / stepsPerPage))
    const stored = state.values.get(at)
    if (!stored || !('items' in stored)) break
    const length = stored.keep + stored.items.length
    if (length <= wanted && at !== id) beginnings.set(at, length)
    if (wanted > stored.keep) {
      parts.push(stored.items.slice(0, wanted - stored.keep))
      leaves.push(stored.leaves)
    }
    wanted = Math.min(wanted, stored.keep)
    at = stored.base
  }
  return { items: parts.reverse().flat(), leaves: leaves.reverse().flat(), beginnings }
}
