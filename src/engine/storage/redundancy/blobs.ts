// Chunks with parity: a put also writes the parity of the chunks' group, and a damaged chunk is rebuilt from the
// others. A plain wrapper around the chunks of a store: list and delete show chunks only.
// A few chunks at a time would need a parity of their own size: a small group stays open, and the next few chunks
// join it.
// Its new parity is put under a new name, and the old one is deleted afterwards.

import { lanes, ParityBuilder, stripeOf } from '../../../core/checkpoint/parity.ts'
import { type Digest, equalBytes, toHex } from '../../../core/coordinate.ts'
import { isRedundancy } from '../../../core/store/blobs.ts'
import type { Blobs, Change, ChunkRow, Hash, Rewritten, StoredChunk } from '../../../core/store/ports.ts'
import { keysOf, type StoredGroup, storedForm } from './groups.ts'
import { inspectRedundancy } from './inspect.ts'
import { Mender, type Source } from './mend.ts'
import { abandon, dissolve, regroup, type TendReport, tend } from './regroup.ts'

/** A larger batch becomes several groups. */
const groupBytesMax = 4 * 1024 * 1024
/** A group of this size accepts no further member. */
const closedBytes = 1024 * 1024
/** Superseded groups are removed in batches of this size. */
const removedAtOnce = 32

const scrubbedAtOnce = 64

export interface ScrubReport {
  readonly next: Digest | null
  readonly bytes: number
  readonly healed: number
  /** Damaged chunks that could not be rebuilt. */
  readonly left: number
}

export interface MendedChunk {
  readonly digest: string
  /** 'copy', 'parity', or the name of another place. */
  readonly from: Source | (string & {})
  readonly isPutBack: boolean
}

interface OpenGroup {
  readonly group: StoredGroup
  readonly builder: ParityBuilder
}

export class RedundantBlobs implements Blobs {
  readonly #blobs: Blobs
  readonly #hash: Hash
  readonly #mender: Mender
  readonly #report: (mended: MendedChunk) => void
  readonly #planted: ReadonlySet<string>
  /** False: new chunks get no parity, and tending removes the existing parity. */
  isOn = true
  /** Largest first. */
  #open: OpenGroup[] = []
  #superseded: Digest[] = []

  constructor(
    blobs: Blobs,
    hash: Hash,
    report: (mended: MendedChunk) => void,
    planted: ReadonlySet<string> = new Set(),
  ) {
    this.#planted = planted
    this.#blobs = blobs
    this.#hash = hash
    this.#report = report
    this.#mender = new Mender(blobs, hash)
  }

  get batchBytes(): number | undefined {
    return this.#blobs.batchBytes
  }

  async put(chunks: readonly StoredChunk[], at?: number): Promise<void> {
    if (!this.isOn) return await this.#blobs.put(chunks, at)
    const each = [...new Map(chunks.map((chunk) => [toHex(chunk.digest), chunk])).values()]
    const isThere = (await this.#blobs.has?.(each.map(({ digest }) => digest))) ?? []
    const fresh = each.filter((_, i) => !isThere[i])
    const touched = each.filter((_, i) => isThere[i])
    if (touched.length > 0) await this.#blobs.put(touched, at)
    for (const batch of batches(fresh)) await this.#putGroup(batch, at)
  }

  touch(digests: readonly Digest[], at: number): Promise<Digest[]> {
    return this.#blobs.touch(digests, at)
  }

  rewrite(change: Change, after: string | null, limit: number): Promise<Rewritten> {
    return this.#blobs.rewrite(change, after, limit)
  }

  async compact(isFinal?: boolean): Promise<void> {
    await this.#blobs.compact?.(isFinal)
  }

  get(digests: readonly Digest[]): Promise<(Uint8Array | null)[]> {
    return this.#blobs.get(digests)
  }

  async has(digests: readonly Digest[]): Promise<boolean[]> {
    return (await this.#blobs.has?.(digests)) ?? digests.map(() => false)
  }

  /** Redundancy is listed last, so a page that contains some of it is the last one. */
  async list(after: Digest | null, limit: number): Promise<ChunkRow[]> {
    return (await this.#blobs.list(after, limit)).filter(({ digest }) => !isRedundancy(digest))
  }

  async delete(digests: readonly Digest[], touchedBefore: number): Promise<number> {
    if (digests.length === 0) return 0
    this.#open = []
    this.#mender.forget()
    return await regroup(this.#blobs, this.#hash, this.#mender, digests, touchedBefore, this.#planted)
  }

  async mend(digest: Digest, putsBack = true): Promise<Uint8Array | null> {
    const mended = await this.#mender.mend(digest, putsBack)
    if (!mended) return null
    this.#report({ digest: toHex(digest), from: mended.from, isPutBack: mended.isPutBack })
    return mended.bytes
  }

  /** Like `mend`, from a copy found elsewhere. */
  async restore(digest: Digest, bytes: Uint8Array, from: string): Promise<boolean> {
    const isPutBack = await this.#mender.restore(digest, bytes)
    if (isPutBack) this.#report({ digest: toHex(digest), from, isPutBack })
    return isPutBack
  }

  /** Damaged parity, lists and copies: nothing is lost with them, but the next damage could not be repaired. */
  async inspect(): Promise<string[]> {
    return (await inspectRedundancy(this.#blobs, this.#hash)).map(({ what }) => what)
  }

  /**
   * Reads the next chunks after this one, up to `bytesMax` bytes, and repairs damaged ones. `next` is null at the end.
   * Parity and copies come last and are read as well: damaged ones are removed, and rebuilt when the store is
   * tended.
   */
  async scrub(after: Digest | null, bytesMax: number): Promise<ScrubReport> {
    let next = after
    let bytes = 0
    let healed = 0
    let left = 0
    for (;;) {
      const rows = await this.#blobs.list(next, scrubbedAtOnce)
      const chunks = rows.map(({ digest }) => digest).filter((digest) => !isRedundancy(digest))
      const found = await this.#blobs.get(chunks)
      for (const [i, digest] of chunks.entries()) {
        const stored = found[i] ?? null
        if (stored && equalBytes(this.#hash(stored), digest)) continue
        // A chunk that was swept since it was listed is not damaged.
        const [isThere = true] = (await this.#blobs.has?.([digest])) ?? []
        if (!isThere) continue
        if (await this.mend(digest)) healed += 1
        else left += 1
      }
      bytes += rows.reduce((sum, row) => sum + row.bytes, 0)
      next = rows.at(-1)?.digest ?? null
      const isEnd = rows.length < scrubbedAtOnce
      if (isEnd || chunks.length < rows.length) break
      if (bytes >= bytesMax) return { next, bytes, healed, left }
    }
    const damaged = (await inspectRedundancy(this.#blobs, this.#hash)).map(({ key }) => key)
    if (damaged.length > 0) await this.#blobs.delete(damaged, Number.MAX_SAFE_INTEGER)
    return { next: null, bytes, healed: healed + damaged.length, left }
  }

  /** Rebuilds the damage that `inspect` finds. */
  async repair(live: ReadonlySet<string>): Promise<void> {
    const keys = (await inspectRedundancy(this.#blobs, this.#hash)).map(({ key }) => key)
    if (keys.length > 0) await this.#blobs.delete(keys, Number.MAX_SAFE_INTEGER)
    await this.tend(live)
  }

  /**
   * Adds every chunk to a group, and removes missing members from groups. Called when the store is swept, with its mark:
   * other processes may put groups meanwhile. Default: no other process writes.
   */
  async tend(live: ReadonlySet<string>, touchedBefore = Number.MAX_SAFE_INTEGER): Promise<TendReport> {
    this.#open = []
    this.#superseded = []
    this.#mender.forget()
    const mend = (digest: Digest) => this.mend(digest)
    if (this.isOn) return await tend(this.#blobs, this.#hash, live, mend, touchedBefore)
    return await abandon(this.#blobs, this.#hash, live, mend)
  }

  async #putGroup(chunks: readonly StoredChunk[], at: number | undefined): Promise<void> {
    const bytes = chunks.reduce((sum, chunk) => sum + chunk.bytes.length, 0)
    const joined = await this.#take(bytes)
    const builder = new ParityBuilder(this.#load())
    // The largest first: the lanes of the others are shifted to where it has room.
    for (const { builder: other } of joined.reverse()) builder.adopt(other, other.parity)
    const laneOf = new Map<StoredChunk, number>()
    // The longest first, so that the lanes end up with nearly the same length.
    const order = [...chunks].sort((a, b) => b.bytes.length - a.bytes.length)
    if (this.#planted.has('parity-misses-one')) order.pop()
    for (const chunk of order) {
      laneOf.set(chunk, builder.add(chunk.digest, chunk.bytes).lane)
    }
    const { group, chunks: redundant } = storedForm(this.#hash, builder)
    const striped = chunks.map(({ digest, bytes: stored }, i) => ({
      digest,
      bytes: stored,
      stripe: stripeOf(laneOf.get(chunks[i]!) ?? 0),
    }))
    try {
      await this.#blobs.put([...striped, ...redundant], at)
    } catch (error) {
      this.#open.push(...joined)
      throw error
    }
    this.#mender.forget()
    if (await this.#isTakenApart(joined)) await this.#dissolveGone(group)
    else if (builder.bytes < closedBytes) this.#open.push({ group, builder })
    for (const { group: old } of joined) this.#superseded.push(...keysOf(old))
    if (this.#superseded.length >= removedAtOnce) await this.#removeSuperseded()
  }

  /**
   * The open groups that a batch of this size should join: those not much larger, since their parity is written again.
   * A group that another process changed by sweeping is no longer used.
   */
  async #take(bytes: number): Promise<OpenGroup[]> {
    const taken: OpenGroup[] = []
    let sum = bytes
    while (sum < closedBytes) {
      const last = this.#open.at(-1)
      if (!last || last.builder.bytes > 2 * sum) break
      taken.push(this.#open.pop()!)
      sum += last.builder.bytes
    }
    if (taken.length === 0) return []
    const isThere = (await this.#blobs.has?.(taken.map(({ group }) => keysOf(group)[0]))) ?? []
    return taken.filter((_, i) => isThere[i])
  }

  /** True if another process swept a member of a group that was just added to: the new parity still contains its bytes. */
  async #isTakenApart(joined: readonly OpenGroup[]): Promise<boolean> {
    if (joined.length === 0) return false
    const isThere = await this.#blobs.has?.(joined.map(({ group }) => keysOf(group)[0]))
    return isThere?.includes(false) ?? false
  }

  async #dissolveGone({ members }: StoredGroup): Promise<void> {
    const digests = members.map(({ digest }) => digest)
    const isThere = await this.#blobs.has?.(digests)
    const gone = new Set(digests.filter((_, i) => isThere?.[i] === false).map(toHex))
    await dissolve(this.#blobs, this.#hash, this.#mender, gone)
  }

  #load(): number[] {
    const load: number[] = new Array(lanes).fill(0)
    for (const { builder } of this.#open) for (const [lane, end] of builder.ends.entries()) load[lane]! += end
    return load
  }

  async #removeSuperseded(): Promise<void> {
    const keys = this.#superseded
    this.#superseded = []
    await this.#blobs.delete(keys, Number.MAX_SAFE_INTEGER)
  }
}

function batches(chunks: readonly StoredChunk[]): StoredChunk[][] {
  const all: StoredChunk[][] = []
  let bytes = Number.POSITIVE_INFINITY
  for (const chunk of chunks) {
    if (bytes + chunk.bytes.length > groupBytesMax * 1.25) {
      all.push([])
      bytes = 0
    }
    all.at(-1)!.push(chunk)
    bytes += chunk.bytes.length
  }
  return all
}
