// The store's own check: rows that contradict each other. The server checks its pages and indexes itself
// (data_checksums, amcheck). Timelines are checked by number, a page at a time, so that no statement takes long.

import { RepriseError } from '../../core/errors.ts'
import type { Inspection, StoreFault } from '../../core/store/ports.ts'
import type { Connections } from './connect.ts'
import { damagedPast } from './past.ts'
import { isSoundPast } from './tables.ts'

const timelinesPerPage = 10_000
const faultsMax = 1000

export async function inspectRows(
  connections: Connections,
  s: string,
  ns: number,
  { onProgress, signal, after }: Inspection = {},
): Promise<StoreFault[]> {
  const faults: StoreFault[] = []
  const [end] = await connections.rows<{ last: number }>(
    `SELECT greatest((SELECT max(tid) FROM ${s}.timeline), (SELECT max(tid) FROM ${s}.run),
       (SELECT max(tid) FROM ${s}.manifest), (SELECT max(tid) FROM ${s}.cursor), 0)::bigint AS last`,
    [],
    'safe',
  )
  const last = end!.last
  const pasts = `SELECT 'the past' AS "where", format('${damagedPast}', p.name) AS what FROM ${s}.past p
    WHERE p.ns = $1 AND ${isSoundPast('p')} IS NOT TRUE ORDER BY p.name LIMIT ${faultsMax}`
  if (!Number(after)) faults.push(...(await connections.rows<StoreFault>(pasts, [ns], 'safe')))
  for (let from = Number(after) || 0; from < last && faults.length < faultsMax; from += timelinesPerPage) {
    if (signal?.aborted) throw new RepriseError('ABORTED', 'inspect: aborted', {}, signal.reason)
    // The last page is open-ended: timelines created meanwhile are checked too, at no extra cost.
    const isLast = from + timelinesPerPage >= last
    const range = [from, isLast ? Number.MAX_SAFE_INTEGER : from + timelinesPerPage]
    for (const sql of checks(s)) faults.push(...(await connections.rows<StoreFault>(sql, [ns, ...range], 'safe')))
    const done = Math.min(from + timelinesPerPage, last)
    onProgress?.({ part: 'timelines', done, total: last, faults: faults.length, mark: String(done) })
  }
  return faults.slice(0, faultsMax)
}

/** $1 is the namespace, ($2, $3] the numbers of the timelines. */
function checks(s: string): readonly string[] {
  return [
    `SELECT x.id || '@' || x.first AS "where", 'the run before it ends at ' || x.before AS what FROM (
       SELECT t.id, r.first, coalesce(lag(r.last) OVER (PARTITION BY r.tid ORDER BY r.first), greatest(t.floor, coalesce(t.base_seq, 0))) AS before
       FROM ${s}.run r JOIN ${s}.timeline t ON t.tid = r.tid
       WHERE t.ns = $1 AND t.tid > $2 AND t.tid <= $3 AND r.tid > $2 AND r.tid <= $3
     ) x WHERE x.first <> x.before + 1 ORDER BY 1 LIMIT ${faultsMax}`,
    `SELECT t.id AS "where", 'history ends at ' || r.last || ', the head says ' || t.seq AS what FROM ${s}.timeline t
     CROSS JOIN LATERAL (SELECT coalesce((SELECT last FROM ${s}.run WHERE tid = t.tid ORDER BY first DESC LIMIT 1),
       greatest(t.floor, coalesce(t.base_seq, 0))) AS last) r
     WHERE t.ns = $1 AND t.tid > $2 AND t.tid <= $3 AND NOT t.is_stub AND t.seq > r.last ORDER BY 1 LIMIT ${faultsMax}`,
    `SELECT t.id AS "where", 'its mail counter says ' || t.mail || ', ' || m.count || ' are unread' AS what FROM ${s}.timeline t
     CROSS JOIN LATERAL (SELECT count(*) AS count FROM ${s}.message WHERE tid = t.tid AND consumed_at IS NULL) m
     WHERE t.ns = $1 AND t.tid > $2 AND t.tid <= $3 AND t.mail <> m.count ORDER BY 1 LIMIT ${faultsMax}`,
    orphans(s),
  ]
}

/** A deleted timeline leaves no rows behind: if there are any, its own row was lost, and lists omit it. */
function orphans(s: string): string {
  const left = (table: string, one: string, many: string) =>
    `SELECT 'timeline number ' || o.tid AS "where", 'it is gone, and ' || count(*)
       || CASE WHEN count(*) = 1 THEN ' ${one} of it is' ELSE ' ${many} of it are' END || ' left' AS what
     FROM ${s}.${table} o WHERE o.ns = $1 AND o.tid > $2 AND o.tid <= $3
       AND NOT EXISTS (SELECT FROM ${s}.timeline t WHERE t.tid = o.tid) GROUP BY o.tid`
  const lists = [
    left('run', 'run', 'runs'),
    left('manifest', 'checkpoint', 'checkpoints'),
    left('cursor', 'cursor', 'cursors'),
  ]
  return `${lists.join(' UNION ALL ')} ORDER BY 1, 2 LIMIT ${faultsMax}`
}
