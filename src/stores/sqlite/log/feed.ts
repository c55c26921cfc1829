// The feed: the log in order of position. A page ends at a whole row, since all runs of a row share its position, and a
// missing row is damage, unless a later row represents it (empty-rows.ts).

import { RepriseError } from '../../../core/errors.ts'
import { isWithin } from '../../../core/history/scope.ts'
import type { FeedFilter, FeedItem, FeedPage, FeedPosition } from '../../../core/store/ports.ts'
import { fromPosition, toPosition } from '../../numbered-position.ts'
import { positionGone } from '../../refusals.ts'
import { damaged } from '../file/failure.ts'
import { fewWithin, type NameSource } from '../rows/list.ts'
import type { Log } from './log.ts'
import { joinedBefore, type PlacedRun, readFrames } from './log-row.ts'

const bytesMax = 8 * 1024 * 1024
const rowsMax = 4096

export interface FeedSource extends NameSource {
  readonly log: Log
}

/** Up to this many timelines of a filter are looked up before the log is read, to learn where their history ends. */
const fewMax = 64

export function readFeed(source: FeedSource, after: FeedPosition, filter: FeedFilter, limit: number): FeedPage {
  const items: FeedItem[] = []
  let bytes = 0
  const from = fromPosition(after)
  const last = source.log.lastPosition()
  if (from > last) throw positionGone(after, toPosition(last))
  let reached = Math.max(from, source.log.firstPosition() - 1)
  const few = filter.prefixes ? fewWithin(source, filter.prefixes, fewMax) : null
  // Nothing after their last run needs to be read.
  const until = few ? few.reduce((most, { head }) => Math.max(most, head.position), 0) : last
  if (limit > 0 && until <= reached) reached = Math.max(reached, last)
  const tids = few && new Set(few.map(({ tid }) => tid))
  const end = reached + rowsMax
  const sql = 'SELECT position, body FROM reprise_log WHERE position > ? ORDER BY position'
  if (limit > 0 && reached < last) {
    for (const row of source.connection.iterate(sql, reached)) {
      const at = row.position as number
      // A misplaced page points backwards, and would be read forever.
      if (at <= reached) throw damaged(`the log leads from row ${reached} back to ${at}`, { position: at })
      // A joined row may begin before the current position.
      if (at - intact(at, () => joinedBefore(at, row.body)) > reached + 1) throw missing(reached + 1)
      reached = at
      for (const item of itemsOf(source, reached, row.body as Uint8Array, filter, tids)) {
        items.push(item)
        bytes += item.run.bytes.length
      }
      if (items.length >= limit || bytes >= bytesMax || reached >= end || reached >= until) break
    }
    const isStopped = items.length >= limit || bytes >= bytesMax || reached >= end
    if (!isStopped && reached < until) throw missing(reached + 1)
    if (reached >= until) reached = last
  }
  return { items, next: reached === 0 ? after : toPosition(reached), isEnd: reached >= last }
}

function itemsOf(
  source: FeedSource,
  position: number,
  body: Uint8Array,
  filter: FeedFilter,
  tids: ReadonlySet<number> | null,
): FeedItem[] {
  const items: FeedItem[] = []
  for (const frame of intact(position, () => [...readFrames(position, body)])) {
    if (tids && !tids.has(frame.tid)) continue
    const timeline = source.timelines.byTid(frame.tid)
    // Forgotten or trimmed entries are gone from the feed too, and other namespaces are invisible.
    if (!timeline || frame.last <= timeline.head.floor || !isWanted(timeline.name, filter)) continue
    const placed: PlacedRun = { position, frame }
    const digest = source.log.digestOf(timeline, placed)
    const run = { first: frame.first, count: frame.last - frame.first + 1, digest, bytes: frame.bytes }
    items.push({ position: toPosition(position), timeline: timeline.name, run })
  }
  return items
}

/** Reads one row. Throws STORE_DAMAGED if the row is damaged. */
function intact<T>(position: number, read: () => T): T {
  try {
    return read()
  } catch (cause) {
    if (!(cause instanceof RepriseError)) throw cause
    throw new RepriseError('STORE_DAMAGED', `the feed is damaged at ${position}: ${cause.message}`, { position }, cause)
  }
}

function isWanted(name: string, { prefixes }: FeedFilter): boolean {
  return prefixes === undefined || prefixes.some((scope) => isWithin(scope, name))
}

function missing(position: number): RepriseError {
  return damaged(`log row ${position} is missing`, { position })
}
