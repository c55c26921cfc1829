// Chunks in several places: the store's own first, then colder tiers. Puts go to the first; a read tries one place
// after the other until it finds the chunk. tools/housekeeping/blob-tiers.ts moves chunks: it puts them into the colder
// place before it deletes them from the warmer one, so that a read in that order finds them in one of the two.

import { type Digest, equalBytes, toHex } from '../../core/coordinate.ts'
import { ignoring } from '../../core/errors.ts'
import type { Blobs, Change, ChunkRow, Rewritten, StoredChunk } from '../../core/store/ports.ts'

export interface TierPlace {
  readonly name: string
  readonly at: string
  /** Opened on first use: a store opens and reads its own chunks even while a colder tier is unreachable. */
  open(): Promise<OpenPlace>
  /** Requests of this process so far. Null: none, or not an object store. */
  requests?(): TierRequests | null
}

export interface OpenPlace {
  readonly blobs: Blobs
  /** The place holds the chunks of this store only: chunks may be moved there, and swept. */
  readonly isOwn: boolean
  /** Requests to an object store so far. */
  readonly meter?: TierRequests | undefined
}

/** Requests that an object store charges for. */
export interface TierRequests {
  readonly puts: number
  readonly gets: number
  readonly lists: number
  readonly deletes: number
  /** Requests among these that were sent again after a fault, or a second time because the first was slow. */
  readonly retries: number
  readonly hedges: number
  readonly bytesOut: number
  readonly bytesIn: number
}

export class TieredBlobs implements Blobs {
  readonly hot: Blobs
  /** Colder places, warmest first. */
  places: readonly TierPlace[] = []
  /** Chunks read from a colder place are also put into the first. */
  pullsBack = false

  readonly #hotMeter: TierRequests | null

  constructor(hot: Blobs, hotMeter: TierRequests | null = null) {
    this.hot = hot
    this.#hotMeter = hotMeter
  }

  /** Requests of this process to each object store so far. Sends no request itself. */
  requests(): { readonly tier: string; readonly requests: TierRequests }[] {
    const all = [{ tier: 'hot', requests: this.#hotMeter }].concat(
      this.places.map(({ name, requests }) => ({ tier: name, requests: requests?.() ?? null })),
    )
    return all.flatMap(({ tier, requests }) => (requests ? [{ tier, requests: { ...requests } }] : []))
  }

  get batchBytes(): number | undefined {
    return this.hot.batchBytes
  }

  get isDurable(): boolean | undefined {
    return this.hot.isDurable
  }

  put(chunks: readonly StoredChunk[], at?: number): Promise<void> {
    return this.hot.put(chunks, at)
  }

  async touch(digests: readonly Digest[], at: number): Promise<Digest[]> {
    let missing = await this.hot.touch(digests, at)
    for (const place of this.places)
      if (missing.length > 0) missing = await (await place.open()).blobs.touch(missing, at)
    return missing
  }

  async get(digests: readonly Digest[]): Promise<(Uint8Array | null)[]> {
    const found = await this.hot.get(digests)
    for (const place of this.places) {
      const lacking = digests.map((_, i) => i).filter((i) => found[i] === null)
      if (lacking.length === 0) return found
      const { blobs } = await place.open()
      const colder = await blobs.get(lacking.map((i) => digests[i]!))
      for (const [n, i] of lacking.entries()) found[i] = colder[n] ?? null
      if (this.pullsBack) await this.#pullBack(lacking.map((i) => [digests[i]!, found[i] ?? null]))
    }
    return found
  }

  async has(digests: readonly Digest[]): Promise<boolean[]> {
    const isThere = (await this.hot.has?.(digests)) ?? digests.map(() => false)
    for (const place of this.places) {
      const lacking = digests.map((_, i) => i).filter((i) => !isThere[i])
      if (lacking.length === 0) break
      const { blobs } = await place.open()
      const colder = await blobs.has?.(lacking.map((i) => digests[i]!))
      for (const [n, i] of lacking.entries()) isThere[i] = colder?.[n] ?? false
    }
    return isThere
  }

  /** For a chunk in several places, the youngest counts. */
  async list(after: Digest | null, limit: number): Promise<ChunkRow[]> {
    if (this.places.length === 0) return await this.hot.list(after, limit)
    const rows = new Map<string, ChunkRow>()
    for (const { blobs } of await this.opened()) {
      for (const row of await blobs.list(after, limit)) {
        const name = toHex(row.digest)
        const known = rows.get(name)
        if (!known || known.touchedAt < row.touchedAt) rows.set(name, row)
      }
    }
    return [...rows]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .slice(0, limit)
      .map(([, row]) => row)
  }

  /** Each place decides by its own age: a chunk that is young in a place stays there. */
  async delete(digests: readonly Digest[], touchedBefore: number): Promise<number> {
    let count = await this.hot.delete(digests, touchedBefore)
    for (const { blobs, isOwn } of (await this.opened()).slice(1)) {
      if (!isOwn || digests.length === 0) continue
      const isThere = await blobs.has?.(digests)
      const there = digests.filter((_, i) => isThere?.[i] !== false)
      if (there.length > 0) count += await blobs.delete(there, touchedBefore)
    }
    return count
  }

  /** Place by place; `after` contains the number of the place. */
  async rewrite(change: Change, after: string | null, limit: number): Promise<Rewritten> {
    const all = (await this.opened()).filter(({ isOwn }) => isOwn)
    const [, at = '0', rest = ''] = /^(\d+):(.*)$/.exec(after ?? '') ?? []
    const number = Number(at)
    const did = await all[number]!.blobs.rewrite(change, rest === '' ? null : rest, limit)
    if (did.next !== null) return { ...did, next: `${number}:${did.next}` }
    return { ...did, next: number + 1 < all.length ? `${number + 1}:` : null }
  }

  async compact(isFinal?: boolean): Promise<void> {
    for (const { blobs, isOwn } of await this.opened()) if (isOwn) await blobs.compact?.(isFinal)
  }

  async mend(digest: Digest, putsBack?: boolean): Promise<Uint8Array | null> {
    return (await this.hot.mend?.(digest, putsBack)) ?? null
  }

  /** All places, the store's own first. */
  async opened(): Promise<OpenPlace[]> {
    const hot = { blobs: this.hot, isOwn: true, ...(this.#hotMeter && { meter: this.#hotMeter }) }
    return [hot, ...(await Promise.all(this.places.map((place) => place.open())))]
  }

  /** Best effort: a chunk that cannot be pulled back is read from the colder place again. */
  async #pullBack(read: readonly (readonly [Digest, Uint8Array | null])[]): Promise<void> {
    const chunks = read.flatMap(([digest, bytes]) => (bytes ? [{ digest, bytes }] : []))
    if (chunks.length === 0) return
    await this.hot.put(chunks).catch(ignoring())
  }
}

/** The chunks whose bytes match their digests. */
export async function soundIn(
  blobs: Blobs,
  digests: readonly Digest[],
  hash: (bytes: Uint8Array) => Digest,
): Promise<StoredChunk[]> {
  const found = await blobs.get(digests)
  return digests.flatMap((digest, i) => {
    const bytes = found[i]
    return bytes && equalBytes(hash(bytes), digest) ? [{ digest, bytes }] : []
  })
}
