// Claims over several shards: each gives its share, and what one has not is taken from the others. Urgency is looked at within a
// shard; between them everybody gets a turn, so that a full shard does not hide the others.

import type { WorkerId } from '../../core/coordinate.ts'
import { isReprise } from '../../core/errors.ts'
import type { ClaimRequest, Head } from '../../core/ports.ts'
import { plainHead, signpostQueue, targetOf } from '../../core/shards.ts'
import type { Places } from './places.ts'
import type { Relay } from './relay.ts'
import { isUnreachable, type Shard } from './shard.ts'

export class Claims {
  readonly #places: Places
  readonly #relay: Relay
  /** Shards that gave no answer: what they gave is not known to whom it was given. */
  readonly lostOn = new Set<number>()
  #turn = 0

  constructor(places: Places, relay: Relay) {
    this.#places = places
    this.#relay = relay
  }

  async claim(request: ClaimRequest): Promise<Head[]> {
    const { shards, count } = this.#places
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
        if (!isReprise(error, 'WORKER_RETIRED')) this.lostOn.add(shard.index)
        return []
      })
      claimed.push(...heads)
      if (heads.length >= limit) full.push(shard)
    }
    const share = Math.floor(request.limit / Math.max(1, there.length))
    if (share > 0) await Promise.all(there.map((shard) => ask(shard, share)))
    // What others left of their share, or too little for all: one after another.
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

  /** Signposts of this worker that it does not know of, or could not see to. */
  async findLost(shard: Shard, worker: WorkerId): Promise<void> {
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
        this.#places.note(head.timeline, shard.index)
        own.push(plainHead(head))
      } else void this.#relay.forward(shard.index, head, target).catch(() => this.lostOn.add(shard.index))
    }
    return own
  }
}

function byUrgency(a: Head, b: Head): number {
  return b.priority - a.priority || (a.wakeup ?? Number.POSITIVE_INFINITY) - (b.wakeup ?? Number.POSITIVE_INFINITY) || 0
}
