// Lists that grow: finds how much of a channel's new array is the stored array of its parent, so that only the rest is
// written. Elements that this process read or wrote before are recognised by identity; among those the newest, and in
// rotation some of the older ones, are compared by their bytes too, so that a change made in place is found.

import { equalBytes } from '../../core/coordinate.ts'
import type { NewValue, StoredValue, ThreadState } from './fold.ts'
import type { Encoded, LeafValue, Portable } from './portable.ts'

type StoredList = Extract<StoredValue, { readonly items: unknown }>

interface KnownList {
  readonly items: readonly Uint8Array[]
  /** Lists that this one goes on from and holds whole at its beginning, with their lengths. */
  readonly beginnings: ReadonlyMap<string, number>
  /** The elements as the graph holds them; null if it does not hold them from us. */
  live: readonly unknown[] | null
}

export interface PreparedList {
  /** The parent's own value is this list already. */
  readonly same: string | null
  readonly value: NewValue
  readonly items: readonly Uint8Array[]
  readonly leaves: ReadonlyMap<string, LeafValue>
}

const knownMax = 16
const newestCompared = 32
const olderCompared = 32

export class Lists {
  readonly #portable: Portable
  readonly #known = new Map<string, KnownList>()
  #turn = 0

  constructor(portable: Portable) {
    this.#portable = portable
  }

  /** The encoded elements of a stored list. */
  items(state: ThreadState, id: string): readonly Uint8Array[] {
    const known = this.#known.get(id)
    if (known) return known.items
    // A list of checkpoints goes from the newest back: each needs the beginning of one that was just read.
    for (const { items, beginnings } of this.#known.values()) {
      const length = beginnings.get(id)
      if (length !== undefined) return items.slice(0, length)
    }
    const collected = collect(state, id, this.#known)
    this.#remember(id, { ...collected, live: null })
    return collected.items
  }

  /** The graph holds these objects for the elements of this list from now on. */
  hold(id: string, items: readonly Uint8Array[], live: readonly unknown[]): void {
    const beginnings = this.#known.get(id)?.beginnings ?? new Map<string, number>()
    this.#remember(id, { items, beginnings, live: [...live] })
  }

  forget(): void {
    this.#known.clear()
  }

  prepare(state: ThreadState, baseId: string | undefined, next: readonly unknown[]): PreparedList {
    const stored = baseId === undefined ? undefined : state.values.get(baseId)
    const base = stored && 'items' in stored ? stored : null
    const before = base ? this.items(state, baseId!) : []
    const live = base ? (this.#known.get(baseId!)?.live ?? null) : null
    const { keep, encoded } = this.#compare(before, live, next)
    const leaves = new Map<string, LeafValue>()
    const added = next.slice(keep).map((item, i) => {
      const made = encoded.get(keep + i) ?? this.#portable.encode(item)
      for (const [digest, leaf] of made.leaves) if (!state.leaves.has(digest)) leaves.set(digest, leaf)
      return made.bytes
    })
    const items = [...before.slice(0, keep), ...added]
    const isSame = base !== null && keep === before.length && added.length === 0
    return { same: isSame ? baseId! : null, value: newValue(base, baseId, keep, added, items), items, leaves }
  }

  /** How many leading elements are those that are stored, and what was encoded to find out. */
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

function newValue(
  base: StoredList | null,
  baseId: string | undefined,
  keep: number,
  added: readonly Uint8Array[],
  items: readonly Uint8Array[],
): NewValue {
  const depth = (base?.depth ?? 0) + 1
  // A list that shrinks and grows again and again would rest on ever more others: then it starts anew.
  const isTooDeep = depth > 2 * items.length + 64
  return base && keep > 0 && !isTooDeep ? [1, baseId!, keep, added, depth] : [1, null, 0, items, 1]
}

function collect(
  state: ThreadState,
  id: string,
  known: ReadonlyMap<string, KnownList>,
): { readonly items: readonly Uint8Array[]; readonly beginnings: ReadonlyMap<string, number> } {
  const parts: (readonly Uint8Array[])[] = []
  const beginnings = new Map<string, number>()
  let wanted = Number.POSITIVE_INFINITY
  for (let at: string | null = id; at !== null && wanted > 0; ) {
    const cached = known.get(at)
    if (cached) {
      parts.push(cached.items.slice(0, wanted))
      if (cached.items.length <= wanted) {
        beginnings.set(at, cached.items.length)
        for (const [each, length] of cached.beginnings) beginnings.set(each, length)
      }
      break
    }
    const stored = state.values.get(at)
    if (!stored || !('items' in stored)) break
    const length = stored.keep + stored.items.length
    if (length <= wanted && at !== id) beginnings.set(at, length)
    parts.push(stored.items.slice(0, Math.max(0, wanted - stored.keep)))
    wanted = Math.min(wanted, stored.keep)
    at = stored.base
  }
  return { items: parts.reverse().flat(), beginnings }
}
