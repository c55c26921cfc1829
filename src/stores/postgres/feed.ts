// The feed across timelines. Runs are read in the order of (pos, id), and only below the oldest running transaction: a
// run that commits later can then never be before the position of a reader. Committed runs above that line are not readable yet;
// the page then reports that it is not the end.

import type { TimelineId } from '../../core/coordinate.ts'
import { rangeOf } from '../../core/history/scope.ts'
import { type FeedFilter, type FeedPage, type FeedPosition, feedStart } from '../../core/store/ports.ts'
import { realTime, sleep } from '../../lib/waiting.ts'
import { notAPosition, positionGone } from '../refusals.ts'
import type { Connections } from './connect.ts'
import { functionName } from './functions.ts'
import { withinSql } from './scope.ts'
import { isStorable } from './text.ts'

interface FeedRow {
  readonly pos: number
  readonly id: number
  readonly first: number
  readonly last: number
  readonly timeline: TimelineId
  /** Null if the filter does not match. */
  readonly digest: Uint8Array | null
  readonly bytes: Uint8Array | null
}

/** On every row, even if no run was found. */
interface FeedBound {
  /** There are committed runs above the line. */
  readonly is_waiting: boolean
  /** No run is at or above this position yet, and none will appear below it: the end of the feed. */
  readonly bound: number
  /** There are readable runs after the page. */
  readonly is_cut: boolean
  /** The last readable run, if few timelines can match: matches were searched up to this place. */
  readonly end_pos: number | null
  readonly end_id: number | null
}

type NameRange = ReturnType<typeof rangeOf>

/** A page ends at about this many bytes, whatever its limit. */
const pageBytesMax = 16 * 1024 * 1024
const scanMin = 256
const scanMax = 4096
const waitsMax = 6
/** Up to this many timelines are read one by one instead of scanning all runs. */
const fewMax = 200
/** Number of values before the prefixes. */
const numbersCount = 6
const feedColumns =
  'pos bigint, id bigint, first bigint, last bigint, timeline text, digest bytea, bytes bytea, is_waiting boolean, is_cut boolean, bound bigint, end_pos bigint, end_id bigint'

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
    // Usually a writer is just about to end: a short wait here saves the caller a useless round trip.
    if (page.items.length > 0 || page.next !== after || !isWaiting || attempt > waitsMax) return page
    await sleep(realTime, 2 ** attempt)
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
  const numbers = [ns, from.pos, from.id, scan, limit, pageBytesMax].map(String)
  const ranges = prefixes?.map((prefix) => (prefix === '' ? { from: '', to: null } : rangeOf(prefix))) ?? []
  const values = [...numbers, ...(prefixes ?? []), ...ranges.flatMap(({ from, to }) => [from, to ?? ''])]
  const rows = await connections.steadyRows<FeedRow & FeedBound>(
    s,
    feedQuery(s, prefixes, ranges),
    feedColumns,
    values,
    'feed',
  )
  // A read-only process may read a namespace that does not exist yet.
  if (rows.length === 0) return { page: { items: [], next: after, isEnd: true }, isWaiting: false }
  // There is always one row, for the line: its own columns are null if nothing was found.
  const { is_waiting: isWaiting, bound } = rows[0]!
  // Everything read earlier was below the line of that time, and the line never moves back.
  if (from.pos >= bound) throw positionGone(after, toPosition({ pos: bound, id: 0 }))
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
  const { end_pos: endPos, end_id: endId } = rows[0]!
  const isEnd = !isWaiting && !rows[0]!.is_cut
  const isPassed = endPos !== null && endId !== null && (endPos > from.pos || (endPos === from.pos && endId > from.id))
  // Between the last match and the end of the readable runs there is nothing for this reader.
  if (isPassed && !rows[0]!.is_cut)
    return { page: { items, next: toPosition({ pos: endPos, id: endId }), isEnd }, isWaiting }
  return { page: { items, next: last ? toPosition(last) : after, isEnd }, isWaiting }
}

/**
 * scanned: the next runs in order, without their bytes, and one more to detect whether there are more. ranked: the
 * matching ones, with the running count and bytes of matches. The page ends where it is full. few: if few timelines, or
 * none, are in the ranges of the prefixes, only their runs are read (functions: feed_of), and ended is the place up to
 * which that counts.
 * The plan must not depend on statistics. So there is no join, only single-row lookups (LATERAL, LIMIT 1), and whether
 * runs wait above the line is read from the last existing run (ORDER BY, LIMIT 1), once: an EXISTS is planned as a scan of
 * all runs if the statistics expect many above, even when there is none.
 */
function feedQuery(s: string, prefixes: readonly string[] | null, ranges: readonly NameRange[]): string {
  const matches = prefixes?.map((_, i) => withinSql('t.timeline', `$1[${numbersCount + i + 1}]`))
  const isMatch = matches ? matches.join(' OR ') || 'false' : 'true'
  const rangesAt = numbersCount + (prefixes?.length ?? 0)
  const names = ranges.map(({ to }, i) => {
    const above = to === null ? '' : `AND id < $1[${rangesAt + 2 * i + 2}]`
    return `(SELECT tid, id AS timeline FROM ${s}.timeline WHERE ns = $1[1]::integer AND id >= $1[${rangesAt + 2 * i + 1}] ${above}
      ORDER BY id LIMIT ${fewMax + 1})`
  })
  const inRange = names.join(' UNION ALL ') || "SELECT 0::bigint AS tid, '' AS timeline WHERE false"
  const few = prefixes
    ? `SELECT count(*) <= ${fewMax} AS is_few, coalesce(array_agg(DISTINCT t.tid) FILTER (WHERE ${isMatch}), '{}') AS tids FROM (${inRange}) t`
    : `SELECT false AS is_few, '{}'::bigint[] AS tids`
  return `
WITH line AS MATERIALIZED (
  SELECT n.bound, coalesce(n.bound <= (SELECT x.pos FROM ${s}.run x WHERE x.ns = $1[1]::integer ORDER BY x.pos DESC, x.id DESC LIMIT 1), false)
    AS is_waiting
  FROM (SELECT pos_base + pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS bound FROM ${s}.namespace WHERE id = $1[1]::integer) n
), few AS MATERIALIZED (${few}), ended AS MATERIALIZED (
  SELECT pos AS end_pos, id AS end_id FROM ${s}.run
  WHERE ns = $1[1]::integer AND (SELECT is_few FROM few) AND pos < (SELECT bound FROM line)
  ORDER BY pos DESC, id DESC LIMIT 1
), next AS MATERIALIZED (
  (SELECT pos, id, tid, first, last, octet_length(bytes) AS size FROM ${s}.run
    WHERE ns = $1[1]::integer AND (pos, id) > ($1[2]::bigint, $1[3]::bigint) AND pos < (SELECT bound FROM line)
      AND NOT (SELECT is_few FROM few)
    ORDER BY pos, id LIMIT $1[4]::bigint + 1)
  UNION ALL (SELECT x.* FROM few CROSS JOIN line CROSS JOIN LATERAL
    ${functionName(s, 'feed_of')}(few.tids, $1[2]::bigint, $1[3]::bigint, line.bound, $1[4]::bigint + 1) x
    WHERE few.is_few ORDER BY x.pos, x.id LIMIT $1[4]::bigint + 1)
), scanned AS MATERIALIZED (
  SELECT r.*, t.timeline, (${isMatch}) AS is_match
  FROM next r CROSS JOIN LATERAL (SELECT id AS timeline FROM ${s}.timeline WHERE tid = r.tid LIMIT 1) t
), ranked AS (
  SELECT *, row_number() OVER w AS n, count(*) FILTER (WHERE is_match) OVER w AS matches,
    coalesce(sum(size) FILTER (WHERE is_match) OVER w, 0) AS bytes_so_far
  FROM scanned WINDOW w AS (ORDER BY pos, id)
), page AS MATERIALIZED (
  SELECT * FROM ranked WHERE n <= $1[4]::bigint AND matches <= $1[5]::bigint AND (bytes_so_far <= $1[6]::bigint OR matches <= 1)
), counts AS MATERIALIZED (
  SELECT (SELECT count(*) FROM page) < (SELECT count(*) FROM scanned) AS is_cut
)
SELECT page.pos, page.id, page.first, page.last, page.timeline, r.digest, r.bytes, line.is_waiting, counts.is_cut, line.bound,
  ended.end_pos, ended.end_id
FROM line CROSS JOIN counts LEFT JOIN ended ON true LEFT JOIN page ON true
  LEFT JOIN LATERAL (
    SELECT digest, bytes FROM ${s}.run WHERE page.is_match AND tid = page.tid AND first = page.first LIMIT 1
  ) r ON true
ORDER BY page.pos, page.id`
}

/**
 * Positions in the feed: pos-id, each with 16 digits, so that they compare as text (functions.ts writes the same in
 * SQL).
 */
const pattern = /^(\d{16})-(\d{16})$/

interface Place {
  readonly pos: number
  readonly id: number
}

/** @example toPosition({ pos: 812, id: 3 }) */
export function toPosition({ pos, id }: Place): FeedPosition {
  return [pos, id].map((part) => String(part).padStart(16, '0')).join('-')
}

export function fromPosition(position: FeedPosition): Place {
  if (position === feedStart) return { pos: -1, id: 0 }
  const parts = pattern.exec(position)
  if (!parts) throw notAPosition(position)
  return { pos: Number(parts[1]), id: Number(parts[2]) }
}
