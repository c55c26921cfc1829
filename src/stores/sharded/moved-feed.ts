// The feed of a shard with moved families. The shard that a timeline left still shows the runs that it had there; the
// copies on its new shard are hidden, and its later runs follow once the reader has passed the old ones. So every run
// is shown once, and the runs of a timeline in order.

import type { FeedItem, FeedPage, FeedPosition, Head } from '../../core/store/ports.ts'
import { isArriving, isOfShards, targetOf } from '../../core/store/shards.ts'
import { type Arrival, arrivalsOn } from './arrivals.ts'
import { Remnants } from './remnants.ts'
import type { Shard } from './shard.ts'
import type { ShardMap } from './shard-map.ts'

export interface MovedPage extends FeedPage {
  /** The page ends early: this shard must be read further first. */
  readonly waitsFor: number | null
}

/** `parts`: the reader's position on each shard. */
export async function asMoved(
  shardMap: ShardMap,
  shard: Shard,
  page: FeedPage,
  parts: readonly FeedPosition[],
): Promise<MovedPage> {
  const items = page.items.filter(({ timeline }) => !isOfShards(timeline))
  if (!shardMap.hasGrown || items.length === 0) return { ...page, items, waitsFor: null }
  const ids = [...new Set(items.map(({ timeline }) => timeline))]
  const isLater = shard.index >= shardMap.first
  const [heads, arrivals] = await Promise.all([
    shard.ask((store) => store.head(ids)),
    isLater ? shard.ask((store) => arrivalsOn(store, ids)) : [],
  ])
  const names = new Map<string, FeedItem['timeline'] | null>()
  for (const [i, id] of ids.entries()) {
    const head = heads[i]
    const isRemnant = head && targetOf(head) !== null
    names.set(id, isRemnant ? await new Remnants(shardMap).nameOf(id) : id)
  }
  const shown: FeedItem[] = []
  for (const item of items) {
    const at = ids.indexOf(item.timeline)
    const arrival = arrivals[at]
    if (arrival && isCopy(item, arrival, heads[at] ?? null)) continue
    if (arrival && arrival.hides !== null && parts[arrival.from]! < arrival.behind) {
      // The runs of one position stay together.
      const before = shown.filter(({ position }) => position < item.position)
      const next = lastBefore(page.items, item.position) ?? parts[shard.index]!
      return { items: before, next, isEnd: false, waitsFor: arrival.from }
    }
    const timeline = names.get(item.timeline)
    if (timeline) shown.push({ ...item, timeline })
  }
  return { ...page, items: shown, waitsFor: null }
}

/** Notes without a position belong to a copy in transit, or to an abandoned one that was replaced. */
function isCopy({ position }: FeedItem, { hides }: Arrival, head: Head | null): boolean {
  return hides === null ? head === null || isArriving(head) : position <= hides
}

function lastBefore(items: readonly FeedItem[], position: FeedPosition): FeedPosition | null {
  let last: FeedPosition | null = null
  for (const item of items) if (item.position < position) last = item.position
  return last
}
