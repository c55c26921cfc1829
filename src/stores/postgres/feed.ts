// The feed across timelines. Runs are read in the order of (pos, id), and only below the oldest transaction
// that is still under way: a run that commits later can then never lie behind a reader. Committed runs above that line
// are not readable yet; the page says that it is not the end.

import type { TimelineId } from '../../core/coordinate.ts'
import type { FeedFilter, FeedPage, FeedPosition } from '../../core/ports.ts'
import type { Connections } from './connect.ts'
import { fromPosition, toPosition } from './position.ts'
import { withinSql } from './scope.ts'
import { isStorable } from './text.ts'

interface FeedRow {
  readonly pos: number
  readonly id: number
  readonly first: number
  readonly last: number
  readonly timeline: TimelineId
  /** Null where the filter says no. */
  readonly digest: Uint8Array | null
  readonly bytes: Uint8Array | null
}

/** On every row, also when no run was found. */
interface Line {
  /** Committed runs lie above the line. */
  readonly is_waiting: boolean
  /** Readable runs lie after the page. */
  readonly is_cut: boolean
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
  const values = [ns, from.pos, from.id, scan, prefixes, limit, pageBytesMax]
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
            timeline: row.timeline,
            run: { first: row.first, count: row.last - row.first + 1, digest, bytes },
          },
        ]
      : [],
  )
  const next = last ? toPosition(last) : after
  return { page: { items, next, isEnd: !isWaiting && !rows[0]!.is_cut }, isWaiting }
}

/**
 * scanned: the next runs in order, without their bytes, and one more to see whether there is more. ranked: which of them match, and how many and how many bytes
 * have matched up to each. The page ends where it is full.
 */
function feedQuery(s: string): string {
  return `
WITH line AS (
  SELECT pos_base + pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS bound FROM ${s}.namespace WHERE id = $1
), scanned AS (
  SELECT r.pos, r.id, r.tid, r.first, r.last, t.id AS timeline, octet_length(r.bytes) AS size,
    ($5::text[] IS NULL OR EXISTS (SELECT 1 FROM unnest($5::text[]) p(scope) WHERE ${withinSql('t.id', 'p.scope')})) AS is_match
  FROM ${s}.run r JOIN ${s}.timeline t ON t.tid = r.tid
  WHERE r.ns = $1 AND (r.pos, r.id) > ($2::bigint, $3::bigint) AND r.pos < (SELECT bound FROM line)
  ORDER BY r.pos, r.id LIMIT $4::bigint + 1
), ranked AS (
  SELECT *, row_number() OVER w AS n, count(*) FILTER (WHERE is_match) OVER w AS matches,
    coalesce(sum(size) FILTER (WHERE is_match) OVER w, 0) AS bytes_so_far
  FROM scanned WINDOW w AS (ORDER BY pos, id)
), page AS (
  SELECT * FROM ranked WHERE n <= $4 AND matches <= $6 AND (bytes_so_far <= $7 OR matches <= 1)
)
SELECT page.pos, page.id, page.first, page.last, page.timeline, r.digest, r.bytes,
  EXISTS (SELECT 1 FROM ${s}.run x WHERE x.ns = $1 AND x.pos >= line.bound) AS is_waiting,
  (SELECT count(*) FROM page) < (SELECT count(*) FROM scanned) AS is_cut
FROM line LEFT JOIN page ON true
  LEFT JOIN ${s}.run r ON page.is_match AND r.tid = page.tid AND r.first = page.first
ORDER BY page.pos, page.id`
}
