// The feed across timelines. Runs are read in the order of (pos, tid, first), and only below the oldest transaction
// that is still under way: a run that commits later can then never lie behind a reader. Committed runs above that line
// are not readable yet; the page says that it is not the end.

import type { TimelineId } from '../../core/coordinate.ts'
import type { FeedFilter, FeedPage, FeedPosition } from '../../core/ports.ts'
import type { Connections } from './connect.ts'
import { fromPosition, toPosition } from './position.ts'
import { isStorable } from './text.ts'

interface FeedRow {
  readonly pos: number
  readonly tid: number
  readonly first: number
  readonly last: number
  readonly id: TimelineId
  /** Null where the filter says no. */
  readonly digest: Uint8Array | null
  readonly bytes: Uint8Array | null
}

interface Line {
  readonly bound: number
  readonly is_waiting: boolean
}

/** A page stops at about this many bytes, whatever its limit says. */
const pageBytesMax = 16 * 1024 * 1024
const scanMin = 256
const scanMax = 4096
const waitsMax = 6

export async function readFeed(
  connections: Connections,
  s: string,
  ns: number,
  after: FeedPosition,
  filter: FeedFilter,
  limit: number,
): Promise<FeedPage> {
  for (let attempt = 1; ; attempt++) {
    const { page, isWaiting } = await readPage(connections, s, ns, after, filter, limit)
    // Mostly a writer is just about to end: a short wait here saves the caller a useless round.
    if (page.items.length > 0 || page.next !== after || !isWaiting || attempt > waitsMax) return page
    await new Promise((resolve) => setTimeout(resolve, 2 ** attempt))
  }
}

async function readPage(
  connections: Connections,
  s: string,
  ns: number,
  after: FeedPosition,
  filter: FeedFilter,
  limit: number,
): Promise<{ page: FeedPage; isWaiting: boolean }> {
  const from = fromPosition(after)
  const prefixes = filter.prefixes?.filter(isStorable) ?? null
  const scan = prefixes ? Math.min(scanMax, Math.max(scanMin, limit * 4)) : Math.max(0, limit)
  const values = [ns, from.pos, from.tid, from.first, scan, prefixes, limit, pageBytesMax]
  const rows = await connections.rows<FeedRow & Line>(feedQuery(s), values, 'safe', 'feed')
  // One row is always there, for the line: its own columns are null if nothing was found.
  const isWaiting = rows[0]!.is_waiting
  const found = rows.filter((row) => row.pos !== null)
  const last = found.at(-1)
  const items = found.flatMap(({ bytes, digest, ...row }) =>
    bytes && digest
      ? [
          {
            position: toPosition(row),
            timeline: row.id,
            run: { first: row.first, count: row.last - row.first + 1, digest, bytes },
          },
        ]
      : [],
  )
  const next = last ? toPosition(last) : after
  return { page: { items, next, isEnd: !isWaiting && (rows[0] as { is_cut?: boolean }).is_cut !== true }, isWaiting }
}

/**
 * scanned: the next runs in order, without their bytes. ranked: which of them match, and how many and how many bytes
 * have matched up to each. The page ends where it is full.
 */
function feedQuery(s: string): string {
  return `
WITH line AS (
  SELECT pos_base + pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS bound FROM ${s}.namespace WHERE id = $1
), scanned AS (
  SELECT r.pos, r.tid, r.first, r.last, t.id,
    ($6::text[] IS NULL OR EXISTS (SELECT 1 FROM unnest($6::text[]) p(prefix) WHERE starts_with(t.id, p.prefix))) AS is_match,
    octet_length(r.bytes) AS size
  FROM ${s}.run r JOIN ${s}.timeline t ON t.tid = r.tid
  WHERE r.ns = $1 AND (r.pos, r.tid, r.first) > ($2::bigint, $3::bigint, $4::bigint) AND r.pos < (SELECT bound FROM line)
  ORDER BY r.pos, r.tid, r.first LIMIT $5
), ranked AS (
  SELECT *, count(*) FILTER (WHERE is_match) OVER w AS matches, coalesce(sum(size) FILTER (WHERE is_match) OVER w, 0) AS bytes_so_far
  FROM scanned WINDOW w AS (ORDER BY pos, tid, first)
), page AS (
  SELECT * FROM ranked WHERE matches <= $7 AND (bytes_so_far <= $8 OR matches <= 1)
)
SELECT page.pos, page.tid, page.first, page.last, page.id, r.digest, r.bytes,
  EXISTS (SELECT 1 FROM ${s}.run x WHERE x.ns = $1 AND x.pos >= line.bound) AS is_waiting,
  (SELECT count(*) FROM scanned) >= $5 OR (SELECT count(*) FROM page) < (SELECT count(*) FROM scanned) AS is_cut
FROM line LEFT JOIN page ON true
  LEFT JOIN ${s}.run r ON page.is_match AND r.tid = page.tid AND r.last = page.last
ORDER BY page.pos, page.tid, page.first`
}
