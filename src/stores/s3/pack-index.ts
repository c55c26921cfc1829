// An in-memory index of chunks from the notes and the lists of the packs: the pack of each chunk, its last touch, and
// whether it is marked for deletion. About 120 bytes per chunk. It only computes: blobs.ts reads and writes.

import { firstIndex } from '../../core/binary-search.ts'
import type { Digest } from '../../core/coordinate.ts'
import { decodeList, type Notes, type PackList } from './pack.ts'

export interface Pack extends PackList {
  readonly id: string
  /** Size of the object. */
  readonly bytes: number
  readonly encodedList: Uint8Array
}

/** A chunk in one pack. */
export interface Copy {
  readonly pack: Pack
  readonly place: number
}

const digestBytes = 32
/** Places are below this: one number encodes pack and place. */
const placesMax = 2 ** 20

export class PackIndex {
  readonly packs = new Map<string, Pack>()
  readonly #numbers = new Map<string, number>()
  readonly #byNumber = new Map<number, Pack>()
  #nextNumber = 0
  /** One place, or several, oldest first. */
  readonly #copies = new Map<string, number | readonly number[]>()
  readonly #touches = new Map<string, number>()
  /** By pack and place: deleted if it was last touched before this. */
  readonly #drops = new Map<string, Map<number, number>>()
  #sorted: readonly string[] | null = null

  add(id: string, bytes: number, encodedList: Uint8Array): void {
    if (this.packs.has(id)) return
    const pack: Pack = { ...decodeList(encodedList), id, bytes, encodedList }
    const number = this.#nextNumber++
    this.packs.set(id, pack)
    this.#numbers.set(id, number)
    this.#byNumber.set(number, pack)
    for (let place = 0; place < pack.count; place++) {
      const name = nameAt(pack, place)
      const known = this.#copies.get(name)
      const own = number * placesMax + place
      if (known === undefined) this.#sorted = null
      this.#copies.set(name, known === undefined ? own : [...(typeof known === 'number' ? [known] : known), own])
    }
  }

  remove(id: string): void {
    const pack = this.packs.get(id)
    const number = this.#numbers.get(id)
    if (!pack || number === undefined) return
    this.packs.delete(id)
    this.#numbers.delete(id)
    this.#byNumber.delete(number)
    this.#drops.delete(id)
    for (let place = 0; place < pack.count; place++) {
      const name = nameAt(pack, place)
      const known = this.#copies.get(name)
      const left = (typeof known === 'number' ? [known] : (known ?? [])).filter(
        (each) => each !== number * placesMax + place,
      )
      if (left.length > 1) this.#copies.set(name, left)
      else if (left.length === 1) this.#copies.set(name, left[0]!)
      else {
        this.#copies.delete(name)
        this.#touches.delete(name)
        this.#sorted = null
      }
    }
  }

  /** Adds the notes about existing packs, and about chunks in them. */
  learn({ touches, drops }: Pick<Notes, 'touches' | 'drops'>): void {
    for (const { digest, at } of touches) {
      const name = nameOf(digest)
      this.#touches.set(name, Math.max(at, this.#touches.get(name) ?? 0))
    }
    for (const { pack, places } of drops) {
      const known = this.#drops.get(pack) ?? new Map<number, number>()
      for (const { place, before } of places) known.set(place, Math.max(before, known.get(place) ?? 0))
      this.#drops.set(pack, known)
    }
  }

  /** The chunk's copy; the newest, if there are several. Null: no copy, or only copies marked for deletion. */
  find(digest: Digest): Copy | null {
    const all = this.copiesOf(digest)
    for (let i = all.length - 1; i >= 0; i--) if (!this.isDropped(all[i]!)) return all[i]!
    return null
  }

  /** All copies, oldest first, including those marked for deletion. */
  copiesOf(digest: Digest): Copy[] {
    const known = this.#copies.get(nameOf(digest))
    if (known === undefined) return []
    const all = (typeof known === 'number' ? [known] : known).map((each) => ({
      pack: this.#byNumber.get(Math.floor(each / placesMax))!,
      place: each % placesMax,
    }))
    return all.sort((a, b) => (a.pack.id < b.pack.id ? -1 : 1))
  }

  ageOf({ pack, place }: Copy): number {
    return Math.max(pack.ats[place]!, this.#touches.get(nameAt(pack, place)) ?? 0)
  }

  isDropped(copy: Copy): boolean {
    const before = this.#drops.get(copy.pack.id)?.get(copy.place)
    return before !== undefined && this.ageOf(copy) < before
  }

  /** True if a copy was never marked for deletion. */
  hasCertain(digest: Digest): boolean {
    return this.copiesOf(digest).some(({ pack, place }) => !this.#drops.get(pack.id)?.has(place))
  }

  /** The next chunks in the order of their digests. */
  list(after: Digest | null, limit: number): { readonly digest: Digest; readonly copy: Copy }[] {
    this.#sorted ??= [...this.#copies.keys()].sort()
    const sorted = this.#sorted
    const start = after && nameOf(after)
    const from = start === null ? 0 : firstIndex(0, sorted.length, (at) => sorted[at]! > start)
    const found: { digest: Digest; copy: Copy }[] = []
    for (let i = from; i < this.#sorted.length && found.length < limit; i++) {
      const digest = new Uint8Array(Buffer.from(this.#sorted[i]!, 'latin1'))
      const copy = this.find(digest)
      if (copy) found.push({ digest, copy })
    }
    return found
  }

  /** All facts besides the lists, without obsolete ones. */
  facts(): Pick<Notes, 'touches' | 'drops'> {
    const touches = [...this.#touches]
      .filter(([name]) => this.#copies.has(name))
      .map(([name, at]) => ({ digest: new Uint8Array(Buffer.from(name, 'latin1')), at }))
    const drops = [...this.#drops]
      .filter(([pack]) => this.packs.has(pack))
      .map(([pack, places]) => ({ pack, places: [...places].map(([place, before]) => ({ place, before })) }))
    return { touches, drops }
  }
}

export function digestAt(pack: PackList, place: number): Digest {
  return pack.digests.slice(place * digestBytes, (place + 1) * digestBytes)
}

function nameAt(pack: PackList, place: number): string {
  const { buffer, byteOffset } = pack.digests
  return Buffer.from(buffer, byteOffset + place * digestBytes, digestBytes).toString('latin1')
}

function nameOf(digest: Digest): string {
  return Buffer.from(digest.buffer, digest.byteOffset, digest.length).toString('latin1')
}
