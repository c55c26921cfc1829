// The databases of a set of shards, as the engine asks about them.

import type { TimelineId } from '../../core/coordinate.ts'
import type { Head, ShardSet, Store } from '../../core/store/ports.ts'
import { type Grown, type GrowRequest, plainHead, type ShardRow } from '../../core/store/shards.ts'
import type { OpenShards } from './open-shards.ts'
import { isUnreachable } from './shard.ts'
import { byShard } from './shard-map.ts'

export class OpenShardSet implements ShardSet {
  readonly #set: OpenShards
  readonly #head: Store['head']

  constructor(set: OpenShards, head: Store['head']) {
    this.#set = set
    this.#head = head
  }

  placeOf(timeline: TimelineId): number {
    return this.#set.shardMap.guess(timeline)
  }

  aheadMs(timeline: TimelineId): number {
    return this.#set.clocks.ahead(this.#set.shardMap.shards[this.#set.shardMap.guess(timeline)])
  }

  hasLostClaims(): boolean {
    return this.#set.claims.hasLost
  }

  /** Two equal reads, with empty outboxes: then all of it held at one moment. */
  async moment(timelines: readonly TimelineId[]): Promise<(Head | null)[] | null> {
    this.#set.check()
    const [first, second] = [await this.#settled(timelines), await this.#settled(timelines)]
    if (!first || !second || first.some((head, i) => !isUnmoved(head, second[i]!))) return null
    return second
  }

  async headsInReach(timelines: readonly TimelineId[]): Promise<(Head | null | undefined)[]> {
    this.#set.check()
    const groups = [...byShard([...timelines.keys()], (i) => this.#set.shardMap.guess(timelines[i]!))]
    const found = new Array<Head | null | undefined>(timelines.length)
    const answers = await Promise.allSettled(
      groups.map(async ([, some]) => {
        const heads = await this.#set.shardMap.find(
          some.map((i) => timelines[i]!),
          'askNow',
        )
        for (const [n, i] of some.entries()) found[i] = heads[n]!.head && plainHead(heads[n]!.head!)
      }),
    )
    const failures = answers.flatMap((answer) => (answer.status === 'rejected' ? [answer.reason] : []))
    const fatal = failures.length === groups.length ? failures[0] : failures.find((error) => !isUnreachable(error))
    if (fatal) throw fatal
    return found
  }

  async list(): Promise<ShardRow[]> {
    this.#set.check()
    return await this.#set.growth.list()
  }

  async grow(request: GrowRequest): Promise<Grown> {
    this.#set.check()
    return await this.#set.growth.grow(request)
  }

  /** Null: mail is in transit. */
  async #settled(timelines: readonly TimelineId[]): Promise<(Head | null)[] | null> {
    const heads = await this.#head(timelines)
    return (await this.#set.relay.isIdle()) ? heads : null
  }
}

function isUnmoved(a: Head | null, b: Head | null): boolean {
  if (!a || !b) return a === b
  return a.operation === b.operation && a.epoch === b.epoch && a.seq === b.seq && a.mail === b.mail
}
