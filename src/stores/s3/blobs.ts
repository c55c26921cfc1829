// Chunks in an object store: packed into objects of a few megabytes, so that a checkpoint is a handful of requests.
// Object stores have no conditional deletion by age, and nothing is changed in place. So touches and deletions are
// notes, and of two concurrent notes, at least one writer sees the other: a touch writes its note and then reads the notes of
// deletion; a deletion writes its note and then reads the touches. A chunk marked for deletion that was touched in time
// stays; a chunk whose touch found the mark is put again. Bytes are removed when their pack is rewritten without them
// (compact), at the earliest when the note about them is as old as `graceMs`: that tolerates a store whose lists are
// outdated (by up to half of it).

import { type Digest, toHex } from '../../core/coordinate.ts'
import type { Blobs, Change, ChunkRow, Hash, Rewritten, StoredChunk } from '../../core/store/ports.ts'
import type { Objects } from './objects.ts'
import type { PackedChunk } from './pack.ts'
import { type Copy, digestAt, type Pack } from './pack-index.ts'
import { Packs } from './packs.ts'

export interface S3BlobsOptions {
  readonly hash: Hash
  /** Milliseconds since 1970. Default: the system's clock. */
  readonly clock?: () => number
  /** How long deleted chunks are kept unreadable before their bytes are removed. Default: 10 minutes. */
  readonly graceMs?: number
  /** Size of a pack. Default: 8 MB. */
  readonly packBytes?: number
}

/** Writing a few bytes again costs less than a note and a list. */
const touchedBytesMin = 256 * 1024
/** A pack is rewritten when this share of it is marked for deletion. */
const deadShare = 0.25
/** Small packs are joined when there are this many. */
const smallPacks = 16
const smallBytes = 1024 * 1024
/** Bytes in memory at once while packs are rewritten. */
const compactBytes = 32 * 1024 * 1024

export class S3Blobs implements Blobs {
  readonly batchBytes: number
  readonly isDurable = true
  readonly #packs: Packs
  readonly #clock: () => number
  readonly #graceMs: number

  constructor(objects: Objects, options: S3BlobsOptions) {
    this.#packs = new Packs(objects, options.hash)
    this.#clock = options.clock ?? Date.now
    this.#graceMs = options.graceMs ?? 600_000
    this.batchBytes = options.packBytes ?? 8 * 1024 * 1024
  }

  async put(chunks: readonly StoredChunk[], at = 0): Promise<void> {
    if (chunks.length === 0) return
    await this.#packs.opened()
    const time = Math.max(Math.round(this.#clock()), Math.ceil(at))
    const each = [...new Map(chunks.map((chunk) => [toHex(chunk.digest), chunk])).values()]
    const known = each.filter(({ digest }) => this.#packs.index.find(digest) !== null)
    const isWorthIt = known.reduce((sum, { bytes }) => sum + bytes.length, 0) >= touchedBytesMin
    const kept = new Set(known.map(({ digest }) => toHex(digest)))
    if (isWorthIt) {
      const digests = known.map(({ digest }) => digest)
      for (const missing of await this.touch(digests, time)) kept.delete(toHex(missing))
    } else kept.clear()
    const fresh = each.filter(({ digest }) => !kept.has(toHex(digest)))
    await this.#write(fresh.map(({ digest, bytes }) => ({ digest, bytes, at: time })))
    await this.#packs.join()
  }

  async touch(digests: readonly Digest[], at: number): Promise<Digest[]> {
    if (digests.length === 0) return []
    await this.#packs.opened()
    const { index } = this.#packs
    const time = Math.max(Math.round(this.#clock()), Math.ceil(at))
    if (digests.some((digest) => index.find(digest) === null)) await this.#packs.refresh()
    const there = digests.filter((digest) => index.find(digest) !== null)
    const touches = there.map((digest) => ({ digest, at: time }))
    if (there.length > 0) {
      await this.#packs.note({ touches })
      await this.#packs.refresh()
    }
    // A chunk that was ever marked for deletion counts as missing, even if a touch seems to have restored it: that
    // touch may have been as late as ours, and the deletion has already read the touches.
    const missing = digests.filter((digest) => !index.hasCertain(digest))
    index.learn({ touches, drops: [] })
    return missing
  }

  async get(digests: readonly Digest[]): Promise<(Uint8Array | null)[]> {
    await this.#packs.opened()
    const found = await this.#read(digests)
    // It may be new, or its pack may have been rewritten: only a fresh list decides.
    const lost = digests.filter((_, i) => found[i] === null)
    if (lost.length === 0) return found
    await this.#packs.refresh()
    const again = await this.#read(lost)
    const byName = new Map(lost.map((digest, i) => [toHex(digest), again[i]!]))
    return digests.map((digest, i) => found[i] ?? byName.get(toHex(digest)) ?? null)
  }

  async has(digests: readonly Digest[]): Promise<boolean[]> {
    await this.#packs.opened()
    return digests.map((digest) => this.#packs.index.find(digest) !== null)
  }

  async list(after: Digest | null, limit: number): Promise<ChunkRow[]> {
    if (after === null) await this.#packs.refresh()
    else await this.#packs.opened()
    const { index } = this.#packs
    return index.list(after, limit).map(({ digest, copy }) => ({
      digest,
      bytes: copy.pack.sizes[copy.place]!,
      touchedAt: index.ageOf(copy),
    }))
  }

  async delete(digests: readonly Digest[], touchedBefore: number): Promise<number> {
    if (digests.length === 0) return 0
    await this.#packs.refresh()
    const { index } = this.#packs
    const old = (digest: Digest) => {
      const copies = index.copiesOf(digest).filter((copy) => !index.isDropped(copy))
      return copies.every((copy) => index.ageOf(copy) < touchedBefore) ? copies : []
    }
    const going = digests.filter((digest) => old(digest).length > 0)
    if (going.length === 0) return 0
    const drops = dropsOf(going.flatMap(old), touchedBefore)
    await this.#packs.note({ drops })
    index.learn({ touches: [], drops })
    await this.#packs.refresh()
    const gone = going.filter((digest) => index.find(digest) === null).length
    await this.compact()
    return gone
  }

  async rewrite(change: Change, after: string | null, limit: number): Promise<Rewritten> {
    const rows = await this.list(after === null ? null : Buffer.from(after, 'hex'), limit)
    const { index } = this.#packs
    const old: Copy[] = []
    const fresh: PackedChunk[] = []
    const found = await this.get(rows.map(({ digest }) => digest))
    for (const [i, { digest, touchedAt }] of rows.entries()) {
      const other = found[i] ? change(found[i]!) : null
      if (!other) continue
      old.push(...index.copiesOf(digest))
      fresh.push({ digest, bytes: other, at: touchedAt })
    }
    await this.#write(fresh)
    // The new ones first, so that there is always one.
    if (old.length > 0) {
      const drops = dropsOf(old, Number.MAX_SAFE_INTEGER)
      await this.#packs.note({ drops })
      index.learn({ touches: [], drops })
    }
    const last = rows.at(-1)
    const isEnd = rows.length < limit
    if (isEnd) await this.compact(true)
    return { next: last && !isEnd ? toHex(last.digest) : null, seen: rows.length, changed: fresh.length, left: 0 }
  }

  /**
   * Rewrites packs without chunks marked for deletion, and joins small ones; a pack is deleted once nothing in it is
   * needed. With `isFinal`, every pack with a marked chunk, and at once: afterwards no byte of it is left.
   */
  async compact(isFinal = false): Promise<void> {
    await this.#packs.refresh()
    const graceMs = isFinal ? 0 : this.#graceMs
    const packs = [...this.#packs.index.packs.values()]
    const dead = new Map(packs.map((pack) => [pack, this.#deadBytes(pack, graceMs)]))
    const isDue = (pack: Pack) => (isFinal ? dead.get(pack)! > 0 : dead.get(pack)! >= pack.bytes * deadShare)
    const small = packs.filter((pack) => pack.bytes < smallBytes && this.#needed(pack).length > 0)
    const going = new Set(packs.filter((pack) => isDue(pack) && this.#needed(pack).length > 0))
    if (small.length >= smallPacks) for (const pack of small) going.add(pack)
    let batch: Pack[] = []
    let bytes = 0
    for (const pack of going) {
      batch.push(pack)
      bytes += pack.bytes
      if (bytes < compactBytes) continue
      await this.#copyOut(batch)
      batch = []
      bytes = 0
    }
    await this.#copyOut(batch)
    // Packs with an unreadable chunk are kept for inspection.
    const spent = packs.filter((pack) => placesOf(pack).every((copy) => this.#isSpent(copy, graceMs)))
    await this.#packs.remove(spent.map(({ id }) => id))
    if (going.size + spent.length > 0) await this.#packs.join()
  }

  /** Copies needed chunks of these packs into new ones: concurrent readers find one or the other. */
  async #copyOut(packs: readonly Pack[]): Promise<void> {
    const staying = packs.flatMap((pack) => this.#needed(pack))
    const found = await this.#packs.read(staying)
    const fresh = staying.flatMap((copy, i) => {
      const bytes = found[i]
      return bytes ? [{ digest: digestAt(copy.pack, copy.place), bytes, at: this.#packs.index.ageOf(copy) }] : []
    })
    await this.#write(fresh)
  }

  #deadBytes(pack: Pack, graceMs: number): number {
    return placesOf(pack)
      .filter((copy) => this.#isSpent(copy, graceMs))
      .reduce((sum, { place }) => sum + pack.sizes[place]!, 0)
  }

  #needed(pack: Pack): Copy[] {
    return placesOf(pack).filter((copy) => this.#isNeeded(copy))
  }

  /** The newest of several copies is kept. */
  #isNeeded(copy: Copy): boolean {
    const found = this.#packs.index.find(digestAt(copy.pack, copy.place))
    return found !== null && found.pack === copy.pack && found.place === copy.place
  }

  #isSpent(copy: Copy, graceMs: number): boolean {
    return !this.#isNeeded(copy) && this.#packs.isSettled(copy, graceMs)
  }

  async #read(digests: readonly Digest[]): Promise<(Uint8Array | null)[]> {
    const copies = digests.map((digest) => this.#packs.index.find(digest))
    const there = copies.filter((copy) => copy !== null)
    const found = await this.#packs.read(there)
    const byCopy = new Map(there.map((copy, i) => [copy, found[i] ?? null]))
    return copies.map((copy) => (copy === null ? null : (byCopy.get(copy) ?? null)))
  }

  async #write(chunks: readonly PackedChunk[]): Promise<void> {
    const batches: PackedChunk[][] = []
    let bytes = Number.POSITIVE_INFINITY
    for (const chunk of chunks) {
      if (bytes + chunk.bytes.length > this.batchBytes) {
        batches.push([])
        bytes = 0
      }
      batches.at(-1)!.push(chunk)
      bytes += chunk.bytes.length
    }
    await Promise.all(batches.map((batch) => this.#packs.write(batch)))
  }
}

function placesOf(pack: Pack): Copy[] {
  return Array.from({ length: pack.count }, (_, place) => ({ pack, place }))
}

function dropsOf(copies: readonly Copy[], before: number) {
  const byPack = new Map<string, { place: number; before: number }[]>()
  for (const { pack, place } of copies) {
    const places = byPack.get(pack.id) ?? []
    places.push({ place, before })
    byPack.set(pack.id, places)
  }
  return [...byPack].map(([pack, places]) => ({ pack, places }))
}
