// The feed of several shards: one order in each, and a position with a part for each. A reader that resumes at a
// position resumes in all of them, so it misses nothing and sees nothing twice.

import type { FeedFilter, FeedItem, FeedPage, FeedPosition } from '../../core/store/ports.ts'
import { joinPositions, splitPosition } from '../../core/store/shards.ts'
import { notAPosition } from '../refusals.ts'
import { asMoved } from './moved-feed.ts'
import { awayError, isUnreachable, type Shard } from './shard.ts'
import type { ShardMap } from './shard-map.ts'

export async function readFeed(
  shardMap: ShardMap,
  after: FeedPosition,
  filter: FeedFilter,
  limit: number,
): Promise<FeedPage> {
  const parts = splitPosition(after, shardMap.count)
  if (!parts) throw notAPosition(after)
  const items: FeedItem[] = []
  const away: unknown[] = []
  let open = [...shardMap.shards]
  // A full shard first leaves room for the others, and then takes the rest.
  do {
    const share = limit === 0 ? 0 : Math.max(1, Math.floor((limit - items.length) / open.length))
    const pages = await Promise.all(
      open.map(async (shard) => {
        const page = await pageOf(shard, parts[shard.index]!, filter, share, away)
        return page && (await moved(shardMap, shard, page, parts, away))
      }),
    )
    const reached = [...parts]
    const further: Shard[] = []
    for (const [i, shard] of open.entries()) {
      const page = pages[i]
      if (!page) continue
      for (const item of page.items) {
        parts[shard.index] = item.position
        items.push({ ...item, position: joinPositions(parts) })
      }
      reached[shard.index] = page.next
      if (!page.isEnd) further.push(shard)
    }
    for (const [i, part] of reached.entries()) parts[i] = part
    open = further
    // An empty page moves the position, too: a filtered read returns occasionally.
    if (items.length === 0) break
  } while (open.length > 0 && items.length < limit)
  const next = joinPositions(parts)
  // The others have no more entries, and the unavailable shard may have more.
  if (away.length > 0 && open.length === 0 && items.length === 0) throw away[0]
  return { items, next, isEnd: open.length === 0 && away.length === 0 }
}

/** Reads of an unavailable shard are not retried at once. */
async function moved(
  shardMap: ShardMap,
  shard: Shard,
  page: FeedPage,
  parts: readonly FeedPosition[],
  away: unknown[],
): Promise<FeedPage | null> {
  try {
    const { waitsFor, ...rest } = await asMoved(shardMap, shard, page, parts)
    const other = waitsFor === null ? null : shardMap.shard(waitsFor)
    if (!other?.isAway) return rest
    away.push(awayError(other))
    return { ...rest, isEnd: true }
  } catch (error) {
    // The timeline that left this shard is on one that is unavailable: its current name is unknown.
    if (!isUnreachable(error)) throw error
    away.push(error)
    return null
  }
}

async function pageOf(
  shard: Shard,
  after: FeedPosition,
  filter: FeedFilter,
  limit: number,
  away: unknown[],
): Promise<FeedPage | null> {
  try {
    return await shard.askBriefly((store) => store.feed(after, filter, limit))
  } catch (error) {
    if (!isUnreachable(error)) throw error
    away.push(error)
    return null
  }
}
