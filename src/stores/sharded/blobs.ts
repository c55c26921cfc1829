// Chunks over several shards. They belong to no timeline, so they are placed by their digest, each on two shards: an
// unavailable shard stops no timeline of another. A chunk is searched for at its places first, and then everywhere.

import type { Digest, TimelineId } from '../../core/coordinate.ts'
import { toHex } from '../../core/coordinate.ts'
import type { Blobs, Change, ChunkRow, Rewritten, StoredChunk } from '../../core/store/ports.ts'
import { ranked } from '../../core/store/shards.ts'
import type { Growth } from './growth.ts'
import { awayError, isUnreachable, type Shard } from './shard.ts'
import { byShard, type ShardMap } from './shard-map.ts'

const copies = 2

export class ShardedBlobs implements Blobs {
  readonly #shardMap: ShardMap
  readonly #growth: Pick<Growth, 'check'>

  constructor(shardMap: ShardMap, growth: Pick<Growth, 'check'>) {
    this.#shardMap = shardMap
    this.#growth = growth
  }

  get batchBytes(): number | undefined {
    return this.#shardMap.shards[0]!.store?.blobs.batchBytes
  }

  async put(chunks: readonly StoredChunk[], at?: number): Promise<void> {
    const placed = chunks.flatMap((chunk) => this.#placesOf(chunk.digest).map((shard) => ({ chunk, shard })))
    const groups = [...byShard(placed, ({ shard }) => shard)]
    const done = await Promise.allSettled(
      groups.map(async ([shard, some]) => {
        await this.#shard(shard).askNow((store) =>
          store.blobs.put(
            some.map(({ chunk }) => chunk),
            at,
          ),
        )
      }),
    )
    const failed = new Set<number>()
    for (const [i, answer] of done.entries()) {
      if (answer.status === 'fulfilled') continue
      if (!isUnreachable(answer.reason)) throw answer.reason
      failed.add(groups[i]![0])
    }
    if (failed.size === 0) return
    // Two copies each, even while a shard is unavailable.
    const again = chunks.filter((chunk) => placed.some((one) => one.chunk === chunk && failed.has(one.shard)))
    if (this.#shardMap.shards.every((shard) => shard.isAway)) throw awayError(this.#shard([...failed][0]!))
    await this.put(again, at)
  }

  async touch(digests: readonly Digest[], at: number): Promise<Digest[]> {
    const missing = await this.#everywhere((blobs) => blobs.touch(digests, at))
    const lacking = missing.map((list) => new Set(list.map(toHex)))
    return digests.filter((digest) => lacking.every((set) => set.has(toHex(digest))))
  }

  async get(digests: readonly Digest[]): Promise<(Uint8Array | null)[]> {
    return await this.#search<Uint8Array | null>(digests, null, async (blobs, some) => await blobs.get(some))
  }

  async has(digests: readonly Digest[]): Promise<boolean[]> {
    const found = await this.#search<true | null>(digests, null, async (blobs, some) => {
      const isThere = (await blobs.has?.(some)) ?? (await blobs.get(some)).map((bytes) => bytes !== null)
      return isThere.map((is) => is || null)
    })
    return found.map((is) => is === true)
  }

  async list(after: Digest | null, limit: number): Promise<ChunkRow[]> {
    const lists = await this.#everywhere((blobs) => blobs.list(after, limit))
    const rows = new Map<string, ChunkRow>()
    for (const row of lists.flat()) {
      const key = toHex(row.digest)
      const before = rows.get(key)
      if (!before || before.touchedAt < row.touchedAt) rows.set(key, row)
    }
    return [...rows]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .slice(0, Math.max(0, limit))
      .map(([, row]) => row)
  }

  async delete(digests: readonly Digest[], touchedBefore: number): Promise<number> {
    // A process that lacks a shard does not know all chunks in use: checked after it has read those.
    await this.#growth.check()
    // Copies count once.
    const wasThere = await this.has(digests)
    await this.#everywhere((blobs) => blobs.delete(digests, touchedBefore))
    const isThere = await this.has(digests)
    return digests.filter((_, i) => wasThere[i] && !isThere[i]).length
  }

  async rewrite(change: Change, after: string | null, limit: number): Promise<Rewritten> {
    return await inTurn(this.#shardMap, after, limit, async (shard, rest, some) => {
      return await shard.ask((store) => store.blobs.rewrite(change, rest, some))
    })
  }

  async compact(isFinal?: boolean): Promise<void> {
    await this.#everywhere(async (blobs) => await blobs.compact?.(isFinal))
  }

  of(timeline: TimelineId): Blobs {
    const ask = async <T>(call: (blobs: Blobs) => Promise<T>): Promise<T> => {
      const shard = this.#shard(await this.#shardMap.locate(timeline))
      return await shard.ask((store) => call(store.blobs))
    }
    return {
      put: (chunks, at) => ask((blobs) => blobs.put(chunks, at)),
      touch: (digests, at) => ask((blobs) => blobs.touch(digests, at)),
      get: (digests) => ask((blobs) => blobs.get(digests)),
      has: (digests) =>
        ask(async (blobs) => {
          return (await blobs.has?.(digests)) ?? (await blobs.get(digests)).map((bytes) => bytes !== null)
        }),
      list: (after, limit) => ask((blobs) => blobs.list(after, limit)),
      delete: (digests, touchedBefore) => ask((blobs) => blobs.delete(digests, touchedBefore)),
      rewrite: (change, after, limit) => ask((blobs) => blobs.rewrite(change, after, limit)),
    }
  }

  #shard(index: number): Shard {
    return this.#shardMap.shards[index]!
  }

  /** The first two in rank, without unavailable shards. */
  #placesOf(digest: Digest): number[] {
    const order = ranked(hashOf(digest), this.#shardMap.count)
    const there = order.filter((shard) => !this.#shard(shard).isAway)
    return (there.length > 0 ? there : order).slice(0, copies)
  }

  /** Calls the reachable shards; any other failure counts. */
  async #everywhere<T>(ask: (blobs: Blobs) => Promise<T>): Promise<T[]> {
    const there = this.#shardMap.shards.filter((shard) => !shard.isAway)
    const answers = await Promise.allSettled(
      there.map(async (shard) => await shard.askNow((store) => ask(store.blobs))),
    )
    const given: T[] = []
    for (const answer of answers) {
      if (answer.status === 'fulfilled') given.push(answer.value)
      else if (!isUnreachable(answer.reason) || answers.length === 1) throw answer.reason
    }
    if (given.length === 0) throw awayError(this.#shard(0))
    return given
  }

  /**
   * Searches the places of each chunk in rank order until all are found. An unavailable shard may have a chunk: then
   * the absence of the chunk is not reported.
   */
  async #search<T>(
    digests: readonly Digest[],
    none: T,
    ask: (blobs: Blobs, some: readonly Digest[]) => Promise<readonly T[]>,
  ): Promise<T[]> {
    const found = new Array<T>(digests.length).fill(none)
    const orders = digests.map((digest) => ranked(hashOf(digest), this.#shardMap.count))
    let lacking = digests.map((_, i) => i)
    let failure: unknown
    for (let rank = 0; rank < this.#shardMap.count && lacking.length > 0; rank++) {
      await Promise.all(
        [...byShard(lacking, (i) => orders[i]![rank]!)].map(async ([shard, some]) => {
          try {
            const given = await this.#shard(shard).askNow((store) =>
              ask(
                store.blobs,
                some.map((i) => digests[i]!),
              ),
            )
            for (const [n, i] of some.entries()) if (given[n] !== none) found[i] = given[n]!
          } catch (error) {
            if (!isUnreachable(error)) throw error
            failure = error
          }
        }),
      )
      lacking = lacking.filter((i) => found[i] === none)
    }
    if (lacking.length > 0 && failure) throw failure
    return found
  }
}

function hashOf(digest: Digest): number {
  return ((digest[8]! << 24) | (digest[9]! << 16) | (digest[10]! << 8) | digest[11]!) >>> 0
}

/** One shard after another: `after` contains the shard. */
export async function inTurn(
  shardMap: ShardMap,
  after: string | null,
  limit: number,
  go: (shard: Shard, rest: string | null, limit: number) => Promise<Rewritten>,
): Promise<Rewritten> {
  const [, index = '0', rest = ''] = /^(\d+):(.*)$/s.exec(after ?? '') ?? []
  let at = Number(index)
  let next: string | null = rest === '' ? null : rest
  const sum = { seen: 0, changed: 0, left: 0 }
  for (;;) {
    const done = await go(shardMap.shards[at]!, next, limit - sum.seen)
    for (const what of ['seen', 'changed', 'left'] as const) sum[what] += done[what]
    if (done.next !== null) return { ...sum, next: `${at}:${done.next}` }
    at += 1
    next = null
    if (at === shardMap.count) return { ...sum, next: null }
    if (sum.seen >= limit) return { ...sum, next: `${at}:` }
  }
}
