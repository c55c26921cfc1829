// The parts of an open set of shards, and the three ways of calling its databases: the one that has a timeline, all that can be
// reached, or each one separately. Shared by the store, its upkeep and its shard set.

import type { TimelineId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import type { Store } from '../../core/store/ports.ts'
import { isOfShards } from '../../core/store/shards.ts'
import { Claims } from './claim.ts'
import { Clocks } from './clocks.ts'
import { Commits } from './commits.ts'
import { Holds } from './cursors.ts'
import { Growth, type ShardSource } from './growth.ts'
import { Relay } from './relay.ts'
import { Settings } from './settings.ts'
import { isUnreachable, type Shard, systemTimers, type Timers } from './shard.ts'
import type { ShardMap } from './shard-map.ts'

export interface ShardedStoreOptions {
  readonly readOnly?: boolean
  readonly openAnother?: (url: string) => ShardSource
  readonly timers?: Timers
}

export class OpenShards {
  readonly shardMap: ShardMap
  readonly relay: Relay
  readonly holds: Holds
  readonly commits: Commits
  readonly claims: Claims
  readonly growth: Growth
  readonly settings: Settings
  readonly clocks: Clocks
  #isClosed = false

  constructor(shardMap: ShardMap, { readOnly = false, openAnother, timers }: ShardedStoreOptions) {
    this.clocks = new Clocks(timers ?? systemTimers)
    this.shardMap = shardMap
    this.relay = new Relay(shardMap)
    this.holds = new Holds(shardMap)
    this.commits = new Commits(shardMap, this.holds, this.relay)
    this.claims = new Claims(shardMap, this.relay)
    this.growth = new Growth(shardMap, this.holds, this.relay, openAnother ?? null)
    this.settings = new Settings(shardMap, readOnly)
  }

  async at<T>(timeline: TimelineId, call: (store: Store) => T | Promise<T>): Promise<T> {
    this.check()
    if (isOfShards(timeline)) throw new RepriseError('INVALID_ID', 'ids below $shards belong to the shards themselves')
    const shard = this.shardMap.shards[await this.shardMap.locate(timeline)]!
    return await shard.ask(call)
  }

  /** Calls the reachable shards, or all if none is. An unreachable shard is an error only if no other shard answered. */
  async everywhere<T>(call: (store: Store, shard: Shard) => T | Promise<T>): Promise<T[]> {
    const { shards } = this.shardMap
    const there = shards.filter((shard) => !shard.isAway)
    const targets: readonly Shard[] = there.length > 0 ? there : shards
    const answers = await Promise.allSettled(targets.map((shard) => shard.askBriefly((store) => call(store, shard))))
    const given = answers.flatMap((answer) => (answer.status === 'fulfilled' ? [answer.value] : []))
    for (const answer of answers) {
      if (answer.status === 'rejected' && (given.length === 0 || !isUnreachable(answer.reason))) throw answer.reason
    }
    return given
  }

  /** Throws CLOSED. */
  check(): void {
    if (this.#isClosed) throw new RepriseError('CLOSED', 'the sharded store is closed')
  }

  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    await this.relay.close()
    await Promise.all(this.shardMap.shards.map((shard) => shard.close()))
  }
}
