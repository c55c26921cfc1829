// Finds an intact copy of a damaged or missing chunk: a copy stored separately, or the rest of its parity group. The
// chunk is restored to its place, or else stored as a separate copy; a read-only store is only read.

import { besides, lanes, type Member, rebuild, stripeOf, stripeOfParity } from '../../../core/checkpoint/parity.ts'
import { type Digest, equalBytes, toHex } from '../../../core/coordinate.ts'
import { isReprise } from '../../../core/errors.ts'
import type { Blobs, Hash } from '../../../core/store/ports.ts'
import { loadGroups, readParity, type StoredGroup } from './groups.ts'
import { keyOf, kinds } from './keys.ts'

export type Source = 'copy' | 'parity'

export interface Mended {
  readonly bytes: Uint8Array
  readonly from: Source
  readonly isPutBack: boolean
}

/** However recently it was touched. */
const always = Number.MAX_SAFE_INTEGER

export class Mender {
  readonly #blobs: Blobs
  readonly #hash: Hash
  /** By member. One damaged place may affect many chunks, so the groups are read once. */
  #index: Map<string, readonly [StoredGroup, Member][]> | null = null

  /** Chunks whose copy was moved back to its place, or could not be. */
  readonly #tried = new Set<string>()

  constructor(blobs: Blobs, hash: Hash) {
    this.#blobs = blobs
    this.#hash = hash
  }

  /** The groups have changed. */
  forget(): void {
    this.#index = null
  }

  async mend(digest: Digest, putsBack = true): Promise<Mended | null> {
    const copy = await this.#copyOf(digest)
    if (copy) {
      // The copy exists because the chunk could not be restored at that time. The place may be intact again: the file was
      // rewritten.
      if (putsBack) await this.#takeHome(digest, copy)
      return { bytes: copy, from: 'copy', isPutBack: true }
    }
    const isFresh = this.#index === null
    const found = (await this.#fromGroups(digest)) ?? (isFresh ? null : await this.#fromGroupsAnew(digest))
    if (!found) return null
    const isPutBack = putsBack && (await this.#putBack(digest, found.bytes, stripeOf(found.lane)))
    return { bytes: found.bytes, from: 'parity', isPutBack }
  }

  /** The stored chunk if it is intact, or its copy. */
  async readSound(digest: Digest): Promise<Uint8Array | null> {
    const [stored] = await this.#blobs.get([digest])
    return this.#isSound(stored ?? null, digest) ? stored! : await this.#copyOf(digest)
  }

  /**
   * All of these that can be read or rebuilt; the others are omitted. Pass chunks of one group at a time: they are read
   * together.
   */
  async readAll(digests: readonly Digest[]): Promise<[Digest, Uint8Array][]> {
    const stored = await this.#blobs.get(digests)
    const sound: [Digest, Uint8Array][] = []
    for (const [i, digest] of digests.entries()) {
      const isSound = this.#isSound(stored[i] ?? null, digest)
      const bytes = isSound ? stored[i]! : ((await this.#copyOf(digest)) ?? (await this.mend(digest))?.bytes)
      if (bytes) sound.push([digest, bytes])
    }
    return sound
  }

  /** Replaces a damaged or missing chunk with bytes from another place. False: they do not match, or cannot be put. */
  async restore(digest: Digest, bytes: Uint8Array): Promise<boolean> {
    if (!this.#isSound(bytes, digest)) return false
    this.#index ??= indexOf(await loadGroups(this.#blobs, this.#hash))
    const [found] = this.#index.get(toHex(digest)) ?? []
    return await this.#putBack(digest, bytes, stripeOf(found?.[1].lane ?? digest[0]! % lanes))
  }

  /** Tried once per process: a place that stays broken is bypassed each time. */
  async #takeHome(digest: Digest, bytes: Uint8Array): Promise<void> {
    const name = toHex(digest)
    if (this.#tried.has(name)) return
    this.#tried.add(name)
    this.#index ??= indexOf(await loadGroups(this.#blobs, this.#hash))
    const [found] = this.#index.get(name) ?? []
    const isBack = await this.#attempt(() => this.#putInPlace(digest, bytes, stripeOf(found?.[1].lane ?? 0)))
    if (isBack) await this.#attempt(async () => (await this.#blobs.delete([keyOf(kinds.copy, digest)], always)) > 0)
  }

  /** In a broken place, neither can the old chunk be deleted nor the new one put: then the copy is stored separately. */
  async #putBack(digest: Digest, bytes: Uint8Array, stripe: number): Promise<boolean> {
    if (await this.#attempt(() => this.#putInPlace(digest, bytes, stripe))) return true
    return await this.#attempt(async () => {
      await this.#blobs.put([{ digest: keyOf(kinds.copy, digest), bytes, stripe: stripeOfParity }])
      return (await this.#copyOf(digest)) !== null
    })
  }

  async #putInPlace(digest: Digest, bytes: Uint8Array, stripe: number): Promise<boolean> {
    await this.#blobs.delete([digest], always)
    await this.#blobs.put([{ digest, bytes, stripe }])
    const [back] = await this.#blobs.get([digest])
    return this.#isSound(back ?? null, digest)
  }

  /** An unwritable chunk can still be read, and is restored the next time. */
  async #attempt(work: () => Promise<boolean>): Promise<boolean> {
    try {
      return await work()
    } catch (error) {
      if (!isReprise(error)) throw error
      return false
    }
  }

  async #copyOf(digest: Digest): Promise<Uint8Array | null> {
    const key = keyOf(kinds.copy, digest)
    const [isThere = true] = (await this.#blobs.has?.([key])) ?? []
    const [stored] = isThere ? await this.#blobs.get([key]) : []
    return this.#isSound(stored ?? null, digest) ? stored! : null
  }

  #isSound(stored: Uint8Array | null, digest: Digest): boolean {
    return stored !== null && equalBytes(this.#hash(stored), digest)
  }

  #fromGroupsAnew(digest: Digest) {
    this.forget()
    return this.#fromGroups(digest)
  }

  async #fromGroups(digest: Digest): Promise<{ bytes: Uint8Array; lane: number } | null> {
    this.#index ??= indexOf(await loadGroups(this.#blobs, this.#hash))
    for (const [group, wanted] of this.#index.get(toHex(digest)) ?? []) {
      const parity = await readParity(this.#blobs, this.#hash, group)
      if (!parity) continue
      const others: [Member, Uint8Array][] = []
      for (const member of besides(group, wanted)) {
        const bytes = await this.readSound(member.digest)
        if (bytes) others.push([member, bytes])
      }
      const bytes = rebuild(wanted, parity, others)
      // An unreadable member, or a parity of other members, changes the result: the digest decides.
      if (this.#isSound(bytes, digest)) return { bytes, lane: wanted.lane }
    }
    return null
  }
}

function indexOf(groups: readonly StoredGroup[]): Map<string, [StoredGroup, Member][]> {
  const index = new Map<string, [StoredGroup, Member][]>()
  for (const group of groups) {
    for (const member of group.members) {
      const name = toHex(member.digest)
      const held = index.get(name)
      if (held) held.push([group, member])
      else index.set(name, [[group, member]])
    }
  }
  return index
}
