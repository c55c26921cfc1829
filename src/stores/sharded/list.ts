// Lists over several shards: each returns its own in order, and they are merged. Signposts and the shards' own
// timelines are hidden.

import type { TimelineId } from '../../core/coordinate.ts'
import { checkTimelineQuery } from '../../core/store/argument-checks.ts'
import type { DueQuery, Head, TimelineQuery, WorkerRow } from '../../core/store/ports.ts'
import { arrivingStatus, isHidden, isOfShards, plainHead } from '../../core/store/shards.ts'
import { compareText } from '../../core/store/text-order.ts'
import { isWanted } from '../../core/store/timeline-filter.ts'
import type { Shard } from './shard.ts'
import type { ShardMap } from './shard-map.ts'

/** On these shards. Default: on all. */
export async function findTimelines(
  shardMap: ShardMap,
  query: TimelineQuery,
  shards: readonly Shard[] = shardMap.shards,
): Promise<Head[]> {
  checkTimelineQuery(query)
  // Families move to later shards only: a family that left an earlier shard meanwhile is on one that is read after it.
  const first = shards.filter(({ index }) => index < shardMap.first)
  const lists = await Promise.all(first.map((shard) => ofShard(shardMap, shard, query)))
  for (const shard of shards) {
    if (shard.index < shardMap.first) continue
    const arrived = await settleOn(shardMap, shard)
    lists.push(arrived.filter((head) => isWanted(query, head.timeline, head)).map(plainHead))
    lists.push(await ofShard(shardMap, shard, query))
  }
  const all = lists.length === 1 ? lists[0]! : lists.flat().sort((a, b) => compareText(a.timeline, b.timeline))
  const each = shardMap.hasGrown ? withoutTwice(all) : all
  return each.slice(0, query.limit)
}

/** A timeline that moved between two reads counts where it was seen last. */
function withoutTwice(heads: readonly Head[]): Head[] {
  return heads.filter((head, i) => heads[i + 1]?.timeline !== head.timeline)
}

/**
 * Copies whose signpost exists already are timelines, even if their mover died before activating them. Returns those
 * that a read-only store leaves inactive.
 */
export async function settleOn(shardMap: ShardMap, shard: Shard): Promise<Head[]> {
  const arrived: Head[] = []
  for await (const page of shard.heads({ status: arrivingStatus })) {
    const settled = await shardMap.settle(shard.index, page)
    if (shardMap.isReadOnly) arrived.push(...settled)
  }
  return arrived
}

async function ofShard(shardMap: ShardMap, shard: Shard, query: TimelineQuery): Promise<Head[]> {
  const found: Head[] = []
  for (let { after } = query; ; ) {
    const limit = query.limit - found.length
    const page = await shard.ask((store) => store.timelines({ ...query, ...(after !== undefined && { after }), limit }))
    for (const head of page) {
      if (isHidden(head)) continue
      shardMap.note(head.timeline, shard.index)
      found.push(plainHead(head))
    }
    if (limit === 0 || page.length < limit || found.length >= query.limit) return found
    after = page.at(-1)!.timeline
  }
}

export async function names(shardMap: ShardMap): Promise<readonly TimelineId[]> {
  const lists = await Promise.all(
    shardMap.shards.map((shard) =>
      shard.ask(async (store) => {
        const { salvage } = store.upkeep
        if (salvage) return await salvage.names()
        return (await store.timelines({ limit: Number.MAX_SAFE_INTEGER })).map(({ timeline }) => timeline)
      }),
    ),
  )
  return [...new Set(lists.flat())].filter((id) => !isOfShards(id))
}

/** One row for each worker, which has a row on every shard. An unavailable shard contributes nothing. */
export async function workers(shardMap: ShardMap): Promise<WorkerRow[]> {
  const there = shardMap.shards.filter((shard) => !shard.isAway)
  const answers = await Promise.allSettled(there.map((shard) => shard.askBriefly((store) => store.workers())))
  const lists = answers.flatMap((answer) => (answer.status === 'fulfilled' ? [answer.value] : []))
  const failed = answers.find((answer) => answer.status === 'rejected')
  if (lists.length === 0 && failed) throw failed.reason
  const merged = new Map<string, WorkerRow>()
  for (const row of lists.flat()) {
    const before = merged.get(row.id)
    merged.set(row.id, before ? mergeWorkers(before, row) : row)
  }
  return [...merged.values()].sort((a, b) => compareText(a.id, b.id))
}

/** By the slowest clock, as every time without a timeline. Rejects while a shard is unavailable. */
export async function nextDue(
  shardMap: ShardMap,
  query: DueQuery,
  aheadMs: (shard: Shard) => number,
): Promise<number | null> {
  const times = await Promise.all(
    shardMap.shards.map(async (shard) => {
      const at = await shard.ask((store) => store.nextDue(query))
      return at === null ? [] : [at - aheadMs(shard)]
    }),
  )
  const all = times.flat()
  return all.length === 0 ? null : Math.min(...all)
}

function mergeWorkers(a: WorkerRow, b: WorkerRow): WorkerRow {
  const newest = b.beatAt > a.beatAt ? b : a
  return {
    ...newest,
    startedAt: Math.min(a.startedAt, b.startedAt),
    progressAt: Math.max(a.progressAt, b.progressAt),
    isAlive: a.isAlive || b.isAlive,
    isRetired: a.isRetired || b.isRetired,
    // A restarted server has lost every session; a worker is gone only if no server sees it.
    isGone: a.isGone && b.isGone,
  }
}
