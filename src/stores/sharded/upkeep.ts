// The upkeep of a set of shards: each call goes to the database that has the timeline, or to all of them.

import type { MessageId, TimelineId } from '../../core/coordinate.ts'
import type {
  Change,
  Inspection,
  LegibleRun,
  LossRecord,
  ManifestRecord,
  PastLife,
  PastRepair,
  Rewritable,
  Rewritten,
  RunChange,
  Salvage,
  Scrubbing,
  StoreFacts,
  StoreFault,
  Upkeep,
} from '../../core/store/ports.ts'
import { inTurn } from './blobs.ts'
import { highestPasts } from './identity.ts'
import { inspectShards } from './inspect.ts'
import { names } from './list.ts'
import type { OpenShards } from './open-shards.ts'
import { changeInside } from './outbox-message.ts'

export class ShardedUpkeep implements Upkeep {
  readonly salvage: Salvage
  readonly #set: OpenShards

  constructor(set: OpenShards) {
    this.#set = set
    this.salvage = new ShardedSalvage(set)
  }

  async facts(): Promise<StoreFacts> {
    this.#set.check()
    const all = await this.#set.everywhere((store) => store.upkeep.facts())
    const sizes = all.map(({ sizeBytes }) => sizeBytes)
    const away = this.#set.shardMap.shards.filter((shard) => shard.isAway)
    const kept = [...new Set(all.flatMap(({ keepsErased = [] }) => keepsErased))]
    const damage = all.flatMap((facts) => facts.damage ?? [])
    return {
      kind: `sharded ${[...new Set(all.map(({ kind }) => kind))].join(' and ')}`,
      location: this.#set.shardMap.shards.map(({ name }) => name).join(', '),
      schemaVersion: Math.min(...all.map(({ schemaVersion }) => schemaVersion)),
      durability: {
        ...all[0]!.durability,
        shards: String(this.#set.shardMap.count),
        ...(away.length > 0 && { 'shards away': away.map(({ reason }) => reason!.message).join('; ') }),
      },
      isReadOnly: all.some(({ isReadOnly }) => isReadOnly),
      sizeBytes: sizes.some((size) => size === null) ? null : sizes.reduce<number>((sum, size) => sum + size!, 0),
      ...(kept.length > 0 && { keepsErased: kept }),
      ...(damage.length > 0 && { damage }),
      clocks: this.#set.clocks.list(),
    }
  }

  async namespaces(): Promise<readonly string[]> {
    return await this.#set.shardMap.shards[0]!.ask((store) => store.upkeep.namespaces())
  }

  async inspect(inspection: Inspection = {}): Promise<StoreFault[]> {
    this.#set.check()
    return await inspectShards(this.#set.shardMap.shards, inspection)
  }

  async rewrite(kind: Rewritable, change: Change, after: string | null, limit: number): Promise<Rewritten> {
    this.#set.check()
    const inside = kind === 'messages' ? changeInside(change) : change
    return await inTurn(this.#set.shardMap, after, limit, async (shard, rest, some) => {
      return await shard.ask((store) => store.upkeep.rewrite(kind, inside, rest, some))
    })
  }

  async replace(timeline: TimelineId, runs: readonly RunChange[]): Promise<Pick<Rewritten, 'changed' | 'left'>> {
    return await this.#set.at(timeline, (store) => store.upkeep.replace(timeline, runs))
  }

  async mendCatalog(timeline: TimelineId, lines: readonly ManifestRecord[]): Promise<{ readonly missing: number }> {
    return await this.#set.at(timeline, (store) => store.upkeep.mendCatalog(timeline, lines))
  }

  async hasCheckpoints(): Promise<boolean> {
    const answers = this.#set.shardMap.shards.map((shard) => shard.ask((store) => store.upkeep.hasCheckpoints()))
    return (await Promise.all(answers)).includes(true)
  }

  async consumed(timeline: TimelineId, after: MessageId | null, limit: number): Promise<MessageId[]> {
    return await this.#set.at(timeline, (store) => store.upkeep.consumed(timeline, after, limit))
  }

  async pasts(after: string | null, limit: number): Promise<PastLife[]> {
    const found = (await this.#set.everywhere((store) => store.upkeep.pasts(after, limit))).flat()
    return highestPasts(found).slice(0, limit)
  }

  async recall(pasts: readonly PastLife[]): Promise<void> {
    await this.#set.everywhere((store) => store.upkeep.recall(pasts))
  }

  async mendPasts(): Promise<PastRepair> {
    const repairs = await this.#set.everywhere((store) => store.upkeep.mendPasts())
    return { mended: repairs.flatMap(({ mended }) => mended), lost: repairs.flatMap(({ lost }) => lost) }
  }

  /** The ids of mail are kept while the same mail may still be in transit from another shard. */
  async tidy(before: number): Promise<{ readonly messages: number; readonly workers: number }> {
    this.#set.check()
    await this.#set.growth.check()
    await this.#set.relay.sweep().catch(() => undefined)
    const isComplete = this.#set.shardMap.shards.every((shard) => !shard.isAway)
    const waiting = isComplete ? await this.#set.relay.waitingSince() : 0
    if (isComplete) await this.#set.holds.tidy(before)
    const done = await this.#set.everywhere((store) => store.upkeep.tidy(Math.min(before, waiting ?? before)))
    return {
      messages: done.reduce((sum, { messages }) => sum + messages, 0),
      workers: Math.max(...done.map((each) => each.workers)),
    }
  }

  async scrub(how?: Scrubbing): Promise<readonly string[]> {
    this.#set.check()
    const lists = await Promise.all(
      this.#set.shardMap.shards.map((shard) => shard.ask((store) => store.upkeep.scrub(how))),
    )
    return lists.flat()
  }
}

class ShardedSalvage implements Salvage {
  readonly #set: OpenShards

  constructor(set: OpenShards) {
    this.#set = set
  }

  async names(): Promise<readonly TimelineId[]> {
    this.#set.check()
    return await names(this.#set.shardMap)
  }

  async legible(timeline: TimelineId, after: number): Promise<readonly LegibleRun[]> {
    return await this.#set.at(timeline, async (store) => {
      const { salvage } = store.upkeep
      if (salvage) return await salvage.legible(timeline, after)
      const runs = await store.read(timeline, after, Number.MAX_SAFE_INTEGER)
      return runs.slice(0, 1).map((run) => ({ ...run, isSound: true }))
    })
  }

  /** A shard that is a file may have been repaired on its own. */
  async losses(accepted?: string): Promise<LossRecord[]> {
    this.#set.check()
    return (await this.#set.everywhere(async (store) => (await store.upkeep.salvage?.losses(accepted)) ?? [])).flat()
  }
}
