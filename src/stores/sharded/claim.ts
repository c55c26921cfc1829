// Claims over several shards: each contributes its share, and the others fill a gap. Priority applies within a shard; the
// shards take turns, so that a full shard does not hide the others.

import type { WorkerId } from '../../core/coordinate.ts'
import { isReprise } from '../../core/errors.ts'
import type { ClaimRequest, Head, TimelineQuery } from '../../core/store/ports.ts'
import { plainHead, signpostQueue, targetOf } from '../../core/store/shards.ts'
import { findTimelines } from './list.ts'
import type { Relay } from './relay.ts'
import { isUnreachable, type Shard } from './shard.ts'
import type { ShardMap } from './shard-map.ts'

export class Claims {
  readonly #shardMap: ShardMap
  readonly #relay: Relay
  /** By shard: the queues for which a claim got no answer, so that its timelines may be claimed without a worker knowing. */
  readonly #lost = new Map<number, Set<string | undefined>>()
  #turn = 0

  constructor(shardMap: ShardMap, relay: Relay) {
    this.#shardMap = shardMap
    this.#relay = relay
  }

  async claim(request: ClaimRequest): Promise<Head[]> {
    const { shards, count } = this.#shardMap
    this.#turn = (this.#turn + 1) % count
    const order = shards.map((_, i) => shards[(this.#turn + i) % count]!)
    const there = order.filter((shard) => !shard.isAway && !shard.isSettling)
    if (there.length === 0) {
      const gone = order.find((shard) => shard.isAway)
      if (gone) throw gone.reason!
      return []
    }
    const failures: unknown[] = []
    const claimed: Head[] = []
    const full: Shard[] = []
    const ask = async (shard: Shard, limit: number): Promise<void> => {
      const heads = await this.#ask(shard, request, limit).catch((error) => {
        failures.push(error)
        if (!isReprise(error, 'WORKER_RETIRED')) this.#lose(shard, [...request.queues, signpostQueue])
        return []
      })
      claimed.push(...heads)
      if (heads.length >= limit) full.push(shard)
    }
    const share = Math.floor(request.limit / Math.max(1, there.length))
    if (share > 0) await Promise.all(there.map((shard) => ask(shard, share)))
    // The unused shares of others, or a limit too small for all: one shard after another.
    for (const shard of share > 0 ? [...full] : there) {
      const left = request.limit - claimed.length
      if (left > 0) await ask(shard, left)
    }
    if (claimed.length === 0 && failures.length > 0) {
      const other = failures.find((error) => !isUnreachable(error))
      if (other !== undefined || failures.length === there.length) throw other ?? failures[0]
    }
    return claimed.sort(byUrgency)
  }

  /** Timelines claimed from a shard that was unavailable are searched for once it is back. */
  get hasLost(): boolean {
    return [...this.#lost.keys()].some((index) => !this.#shardMap.shards[index]!.isAway)
  }

  #lose(shard: Shard, queues: readonly (string | undefined)[]): void {
    const lost = this.#lost.get(shard.index) ?? new Set()
    this.#lost.set(shard.index, lost)
    for (const queue of queues) lost.add(queue)
  }

  /**
   * This worker's timelines in a queue, on the reachable shards (hasLost). The others are recorded with the unread
   * queue: a shard that returns in the middle of several queries gets the first of them again.
   */
  async ofOwner(query: TimelineQuery): Promise<Head[]> {
    const there = this.#shardMap.shards.filter((shard) => !shard.isAway)
    for (const shard of this.#shardMap.shards) if (shard.isAway) this.#lose(shard, [query.queue, signpostQueue])
    const found = await findTimelines(this.#shardMap, query, there)
    for (const shard of there) {
      const lost = this.#lost.get(shard.index)
      if (lost?.has(signpostQueue)) await this.#findSignposts(shard, query.owner!)
      lost?.delete(signpostQueue)
      lost?.delete(query.queue)
      if (lost?.size === 0) this.#lost.delete(shard.index)
    }
    return found
  }

  /** Forwards the mail at signposts that this worker owns without knowing, or could not handle before. */
  async #findSignposts(shard: Shard, worker: WorkerId): Promise<void> {
    const heads = await shard.askBriefly((store) =>
      store.timelines({ owner: worker, queue: signpostQueue, limit: 1000 }),
    )
    for (const head of heads) {
      const target = targetOf(head)
      if (target !== null) await this.#relay.forward(shard.index, head, target)
    }
  }

  async #ask(shard: Shard, request: ClaimRequest, limit: number): Promise<Head[]> {
    const queues = [...request.queues, signpostQueue]
    const heads = await shard.askBriefly((store) => store.claim({ ...request, queues, limit }))
    const own: Head[] = []
    for (const head of heads) {
      const target = targetOf(head)
      if (target === null) {
        this.#shardMap.note(head.timeline, shard.index)
        own.push(plainHead(head))
      } else void this.#relay.forward(shard.index, head, target).catch(() => this.#lose(shard, [signpostQueue]))
    }
    return own
  }
}

function byUrgency(a: Head, b: Head): number {
  return b.priority - a.priority || (a.wakeup ?? Number.POSITIVE_INFINITY) - (b.wakeup ?? Number.POSITIVE_INFINITY) || 0
}
