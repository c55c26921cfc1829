// Where timelines are: the place that the map says, or where the signpost that stands there points to. What this process has
// seen is remembered, so that a known timeline costs no look.

import type { Digest, OperationId, TimelineId, WorkerId } from '../../core/coordinate.ts'
import type { Commit, Head, Outcome } from '../../core/ports.ts'
import { shardOf, signpostQueue, signpostStatus, targetKey, targetOf } from '../../core/shards.ts'
import type { Shard } from './shard.ts'

export interface Found {
  /** As its shard has it; null: it is not there. */
  readonly head: Head | null
  readonly shard: number
}

const rememberedMax = 65_536
const noDigest = new Uint8Array(32) as Digest
/** Never beats, so it owns nothing for long. */
export const shardsWorker = '$shards' as WorkerId

export class Places {
  readonly shards: readonly Shard[]
  readonly #home: (id: string) => number
  readonly #seen = new Map<string, number>()
  readonly newOperation: () => OperationId

  constructor(shards: readonly Shard[], newOperation: () => OperationId, home?: (id: string) => number) {
    this.shards = shards
    this.newOperation = newOperation
    this.#home = home ?? ((id) => shardOf(id, shards.length))
  }

  get count(): number {
    return this.shards.length
  }

  /** Where the map says. */
  home(id: string): number {
    return this.#home(id)
  }

  /** Where it was seen; undefined: nobody looked yet. */
  seen(id: string): number | undefined {
    return this.#seen.get(id)
  }

  /** Where it was seen, or else where it must be looked for first. */
  guess(id: string): number {
    return this.#seen.get(id) ?? this.#home(id)
  }

  note(id: string, shard: number): void {
    if (this.#seen.get(id) === shard) return
    if (this.#seen.size >= rememberedMax) {
      for (const oldest of this.#seen.keys()) {
        this.#seen.delete(oldest)
        if (this.#seen.size < (rememberedMax * 7) / 8) break
      }
    }
    this.#seen.set(id, shard)
  }

  forget(id: string): void {
    this.#seen.delete(id)
  }

  async locate(id: TimelineId): Promise<number> {
    const seen = this.#seen.get(id)
    if (seen !== undefined) return seen
    const [found] = await this.find([id])
    return found!.shard
  }

  /** In the order asked. A timeline that is not there: `shard` is where it would be made. */
  async find(ids: readonly TimelineId[], how: 'ask' | 'askNow' = 'ask'): Promise<Found[]> {
    const found = new Array<Found>(ids.length)
    let open = ids.map((id, at) => ({ id, at, shard: this.guess(id), hops: 0 }))
    while (open.length > 0) {
      const asked = byShard(open, ({ shard }) => shard)
      const further: typeof open = []
      await Promise.all(
        [...asked].map(async ([shard, some]) => {
          const heads = await this.shards[shard]![how]((store) => store.head(some.map(({ id }) => id)))
          for (const [i, one] of some.entries()) {
            const next = this.#follow(one.id, shard, heads[i] ?? null, one.hops)
            if (next === null) found[one.at] = { head: heads[i] ?? null, shard }
            else if (next === 'gone') found[one.at] = { head: null, shard }
            else further.push({ ...one, shard: next, hops: one.hops + 1 })
          }
        }),
      )
      open = further
    }
    return found
  }

  /** Where to look next; null: here it is, or it is nowhere. */
  #follow(id: TimelineId, shard: number, head: Head | null, hops: number): number | 'gone' | null {
    if (!head) {
      const wasSeen = this.#seen.delete(id)
      return wasSeen && hops === 0 && shard !== this.#home(id) ? this.#home(id) : null
    }
    const target = targetOf(head)
    if (target === null) {
      this.note(id, shard)
      return null
    }
    this.#seen.delete(id)
    return hops > this.count ? 'gone' : target
  }

  /**
   * Puts a signpost where this id would be made, so that it can be made on another shard. Answers where it is to be made, or is.
   */
  async point(id: TimelineId, to: number): Promise<number> {
    let from = this.#home(id)
    for (let hops = 0; hops <= this.count; hops++) {
      if (from === to) return to
      const [outcome] = await this.shards[from]!.askNow((store) => store.commit([this.#signpost(id, to)]))
      if (outcome?.ok !== false) return to
      const target = outcome.head && targetOf(outcome.head)
      if (target === null) return from
      from = target
    }
    return from
  }

  #signpost(id: TimelineId, to: number): Commit {
    return {
      operation: this.newOperation(),
      guard: { timeline: id, epoch: 0 },
      take: { worker: shardsWorker, from: 'anyone', create: { digest: noDigest } },
      release: true,
      status: signpostStatus,
      queue: signpostQueue,
      attributes: { [targetKey]: to },
    }
  }

  /** Where a refused commit belongs, if a signpost refused it. */
  redirect(outcome: Outcome): number | null {
    return outcome.ok || !outcome.head ? null : targetOf(outcome.head)
  }
}

export function byShard<Item>(items: readonly Item[], shardOfItem: (item: Item) => number): Map<number, Item[]> {
  const groups = new Map<number, Item[]>()
  for (const item of items) {
    const shard = shardOfItem(item)
    const group = groups.get(shard)
    if (group) group.push(item)
    else groups.set(shard, [item])
  }
  return groups
}
