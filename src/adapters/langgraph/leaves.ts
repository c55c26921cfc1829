// Leaves: long texts, large binaries and messages, to which encoded values refer by digest. The place of a leaf is the entry
// that added it; each encoded value is stored with the places of its leaves. So a reader finds them without an index of
// digests, close to the values that refer to them, and a writer does not store a leaf again whose place it knows.
//
//   place = seq × 2^20 + number of the leaf in its entry
//   ref   = a place, or -1 - n: leaf n of the same entry, whose place is not known before it is written

import { assert } from '../../core/assert.ts'
import { Keyed } from '../../core/keyed-state/keyed.ts'
import type { Encoded, LeafValue } from './portable.ts'

/** Bytes, or bytes and the places (in an entry: refs) of the leaves they refer to. */
export type Packed = Uint8Array | readonly [bytes: Uint8Array, leaves: readonly number[]]
export type LeafRecord = readonly [digest: Uint8Array, value: LeafValue]
export type NewLeaves = readonly LeafRecord[]
type LeavesByPlace = Keyed<LeafRecord>

const entryLeavesMax = 2 ** 20
/** Number of leaf places that a writer remembers, and number of older leaves that it looks up. */
const rememberedMax = 4096
const lookedUpMax = 256

export function placeOf(seq: number, n: number): number {
  assert(n < entryLeavesMax, 'an entry adds fewer than a million leaves')
  return seq * entryLeavesMax + n
}

export function placeKey(place: number): string {
  const seq = Math.floor(place / entryLeavesMax)
  return `${seq.toString(36).padStart(9, '0')}.${place % entryLeavesMax}`
}

export function bytesOf(packed: Packed): Uint8Array {
  return packed instanceof Uint8Array ? packed : packed[0]
}

export function placesOf(packed: Packed): readonly number[] {
  return packed instanceof Uint8Array ? [] : packed[1]
}

export function settleRefs(seq: number, refs: readonly number[]): readonly number[] {
  return refs.map((ref) => (ref < 0 ? placeOf(seq, -1 - ref) : ref))
}

export function settlePacked(seq: number, packed: Packed): Packed {
  return packed instanceof Uint8Array ? packed : [packed[0], settleRefs(seq, packed[1])]
}

export class Leaves {
  /** Least recently used first. */
  readonly #places = new Map<string, number>()
  #hasLookedUp = false
  #read = new Map<string, LeafValue>()
  readonly #readPlaces = new Set<number>()

  /** Drops all cached places and leaves. */
  forget(): void {
    this.#places.clear()
    this.#hasLookedUp = false
    this.#read = new Map()
    this.#readPlaces.clear()
  }

  /** Starts the leaves of a new entry. May require the last pages of leaves. */
  draft(leaves: LeavesByPlace): LeafDraft {
    if (!this.#hasLookedUp) {
      const newest = [...leaves.entries({ reverse: true, limit: lookedUpMax })].reverse()
      for (const [key, [digest]] of newest) this.#remember(digestText(digest), placeFrom(key))
      this.#hasLookedUp = true
    }
    return new LeafDraft((digest) => this.#placeOf(digest, leaves))
  }

  /** Records the places of a draft whose entry was written. */
  written(draft: LeafDraft, seq: number): void {
    draft.digests.forEach((digest, n) => {
      this.#remember(digest, placeOf(seq, n))
    })
  }

  /** The leaves at these places, by digest, including those read before. May require their pages. */
  read(leaves: LeavesByPlace, places: readonly number[]): ReadonlyMap<string, LeafValue> {
    const missing = places.filter((place) => !this.#readPlaces.has(place))
    if (missing.length === 0) return this.#read
    const keys = missing.map(placeKey)
    Keyed.need(leaves, keys)
    keys.forEach((key, i) => {
      const record = leaves.get(key)
      if (!record) return
      this.#read.set(digestText(record[0]), record[1])
      this.#readPlaces.add(missing[i]!)
    })
    return this.#read
  }

  #placeOf(digest: string, leaves: LeavesByPlace): number | undefined {
    const place = this.#places.get(digest)
    // A prune may have removed it.
    if (place === undefined || !leaves.has(placeKey(place))) return undefined
    this.#remember(digest, place)
    return place
  }

  #remember(digest: string, place: number): void {
    this.#places.delete(digest)
    this.#places.set(digest, place)
    if (this.#places.size > rememberedMax) this.#places.delete(this.#places.keys().next().value!)
  }
}

/** The leaves of an entry that is being built. */
export class LeafDraft {
  readonly #placeOf: (digest: string) => number | undefined
  readonly #brought = new Map<string, LeafRecord>()
  readonly #numbers = new Map<string, number>()

  constructor(placeOfDigest: (digest: string) => number | undefined) {
    this.#placeOf = placeOfDigest
  }

  get brought(): NewLeaves {
    return [...this.#brought.values()]
  }

  get digests(): readonly string[] {
    return [...this.#brought.keys()]
  }

  refs(leaves: ReadonlyMap<string, LeafValue>): number[] {
    return [...leaves].map(([digest, value]) => {
      const known = this.#numbers.get(digest)
      if (known !== undefined) return -1 - known
      const place = this.#placeOf(digest)
      if (place !== undefined) return place
      const n = this.#brought.size
      this.#numbers.set(digest, n)
      this.#brought.set(digest, [new Uint8Array(Buffer.from(digest, 'base64url')), value])
      return -1 - n
    })
  }

  pack({ bytes, leaves }: Encoded): Packed {
    return leaves.size === 0 ? bytes : [bytes, this.refs(leaves)]
  }
}

function digestText(digest: Uint8Array): string {
  return Buffer.from(digest.buffer, digest.byteOffset, digest.byteLength).toString('base64url')
}

export function placeFrom(key: string): number {
  const at = key.indexOf('.')
  return placeOf(Number.parseInt(key.slice(0, at), 36), Number(key.slice(at + 1)))
}
