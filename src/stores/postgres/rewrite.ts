// Replaces stored bytes by others (Upkeep.rewrite). A row is replaced only if it is unchanged since it was read,
// according to its digest (for a message: its bytes), so no lock is held between reading and writing.

import type { TimelineId } from '../../core/coordinate.ts'
import type { Change, ManifestRecord, Rewritable, Rewritten, RunChange } from '../../core/store/ports.ts'
import type { Connections } from './connect.ts'

interface Kind {
  readonly table: string
  /** Two columns that order the rows. */
  readonly order: readonly [string, string]
  readonly orderTypes: readonly [string, string]
  readonly bytes: string
  /** Equal as long as the row is unchanged. */
  readonly same: string
  readonly where: string
}

const ofTimelines = (s: string) => `tid IN (SELECT tid FROM ${s}.timeline WHERE ns = $1)`

const kinds: Readonly<Record<Rewritable | 'chunks', (s: string) => Kind>> = {
  runs: (s) => ({
    table: `${s}.run`,
    order: ['tid', 'first'],
    orderTypes: ['bigint', 'bigint'],
    bytes: 'bytes',
    same: 'digest',
    where: 'ns = $1',
  }),
  checkpoints: (s) => ({
    table: `${s}.manifest`,
    order: ['tid', 'ord'],
    orderTypes: ['bigint', 'bigint'],
    bytes: 'body',
    same: 'body_digest',
    where: 'ns = $1',
  }),
  messages: (s) => ({
    table: `${s}.message`,
    order: ['tid', 'ord'],
    orderTypes: ['bigint', 'bigint'],
    bytes: 'data',
    same: 'data',
    where: `consumed_at IS NULL AND ${ofTimelines(s)}`,
  }),
  chunks: (s) => ({
    table: `${s}.chunk`,
    order: ['ns', 'digest'],
    orderTypes: ['integer', 'bytea'],
    bytes: 'bytes',
    same: 'digest',
    where: 'ns = $1',
  }),
}

interface Row {
  readonly a: string
  readonly b: string
  readonly same: Uint8Array
  readonly bytes: Uint8Array
}

export async function rewrite(
  connections: Connections,
  s: string,
  ns: number,
  which: Rewritable | 'chunks',
  change: Change,
  after: string | null,
  limit: number,
): Promise<Rewritten> {
  connections.checkOpen()
  const { table, order, orderTypes, bytes, same, where } = kinds[which](s)
  const [a, b] = order
  const [typeA, typeB] = orderTypes
  const from = after === null ? null : after.split(' ')
  const beyond = from ? `AND (${a}, ${b}) > ($3::${typeA}, $4::${typeB})` : ''
  const text = `SELECT ${a}::text AS a, ${b}::text AS b, ${same} AS same, ${bytes} AS bytes FROM ${table}
    WHERE ${where} ${beyond} ORDER BY ${a}, ${b} LIMIT $2`
  const rows = await connections.rows<Row>(text, [ns, Math.max(1, limit), ...(from ?? [])], 'safe', 'rewrite')
  let changed = 0
  for (const row of rows) {
    const other = change(row.bytes)
    if (!other) continue
    const update = `WITH done AS (UPDATE ${table} SET ${bytes} = $4 WHERE ${a} = $1::${typeA} AND ${b} = $2::${typeB}
      AND ${same} = $3 RETURNING 1) SELECT count(*) AS count FROM done`
    const values = [row.a, row.b, Buffer.from(row.same), Buffer.from(other)]
    const [done] = await connections.rows<{ count: number }>(update, values, 'safe', 'rewrite')
    changed += done!.count
  }
  const last = rows.at(-1)
  const next = last && rows.length >= Math.max(1, limit) ? `${last.a} ${last.b}` : null
  return { next, seen: rows.length, changed, left: 0 }
}

/** Replaces runs of one timeline (Store.replace). */
export async function replaceRuns(
  connections: Connections,
  s: string,
  ns: number,
  timeline: TimelineId,
  runs: readonly RunChange[],
): Promise<Pick<Rewritten, 'changed' | 'left'>> {
  connections.checkOpen()
  let changed = 0
  for (const { first, digest, bytes, count } of runs) {
    if (count !== undefined) {
      changed += await mend(connections, s, ns, timeline, { first, last: first + count - 1, digest, bytes })
      continue
    }
    const update = `WITH done AS (UPDATE ${s}.run SET bytes = $5
      WHERE tid = (SELECT tid FROM ${s}.timeline WHERE ns = $1 AND id = $2) AND first = $3 AND digest = $4
      RETURNING 1) SELECT count(*) AS count FROM done`
    const values = [ns, timeline, first, Buffer.from(digest), Buffer.from(bytes)]
    const [done] = await connections.rows<{ count: number }>(update, values, 'safe', 'rewrite')
    changed += done!.count
  }
  return { changed, left: 0 }
}

/** Restores catalog entries from their copies (Upkeep.mendCatalog). */
export async function mendLines(
  connections: Connections,
  s: string,
  ns: number,
  timeline: TimelineId,
  lines: readonly ManifestRecord[],
): Promise<void> {
  connections.checkOpen()
  const columns = `seq epoch digest body body_digest base_id created_at trigger label is_pinned fold_version total_bytes
    added_bytes verified_at invalid drilled_at drill`.split(/\s+/)
  const text = `WITH done AS (INSERT INTO ${s}.manifest (tid, ns, id, ${columns.join(', ')})
    SELECT tid, $1, $3, ${columns.map((_, i) => `$${i + 4}`).join(', ')} FROM ${s}.timeline WHERE ns = $1 AND id = $2
    ON CONFLICT (ns, id) DO UPDATE SET ${columns.map((name) => `${name} = excluded.${name}`).join(', ')}
    RETURNING 1) SELECT count(*) AS count FROM done`
  for (const line of [...lines].reverse()) {
    const { id, seq, epoch, baseId, createdAt, trigger, label, isPinned, foldVersion, totalBytes, addedBytes } = line
    const bytes = [line.digest, line.body, line.bodyDigest].map((each) => Buffer.from(each))
    const facts = [baseId, createdAt, trigger, label, isPinned, foldVersion, totalBytes, addedBytes]
    const notes = [line.verifiedAt, line.invalid, line.drilledAt, line.drill]
    await connections.rows(text, [ns, timeline, id, seq, epoch, ...bytes, ...facts, ...notes], 'safe', 'rewrite')
  }
}

/** A missing run is inserted in the feed at the position of the previous run, or after it: the order of its timeline is kept. */
async function mend(
  connections: Connections,
  s: string,
  ns: number,
  timeline: TimelineId,
  run: { readonly first: number; readonly last: number; readonly digest: Uint8Array; readonly bytes: Uint8Array },
): Promise<number> {
  const text = `WITH line AS (SELECT tid FROM ${s}.timeline WHERE ns = $1 AND id = $2 AND floor < $3 AND seq >= $4),
    near AS (SELECT r.pos, r.written_at FROM ${s}.run r JOIN line USING (tid) WHERE r.first <> $3
      ORDER BY r.first < $3 DESC, abs(r.first - $3) LIMIT 1),
    done AS (INSERT INTO ${s}.run (tid, last, first, pos, written_at, ns, digest, bytes)
      SELECT tid, $4, $3, coalesce((SELECT pos FROM near), 0), coalesce((SELECT written_at FROM near), 0), $1, $5, $6 FROM line
      ON CONFLICT (tid, first) DO UPDATE SET last = excluded.last, digest = excluded.digest, bytes = excluded.bytes
      RETURNING 1)
    SELECT count(*) AS count FROM done`
  const values = [ns, timeline, run.first, run.last, Buffer.from(run.digest), Buffer.from(run.bytes)]
  const [done] = await connections.rows<{ count: number }>(text, values, 'safe', 'rewrite')
  return done!.count
}
