// Workers: one row each, one heartbeat however many timelines it owns, and the database's clock for all.

import type { WorkerId } from '../../core/coordinate.ts'
import { ignoring } from '../../core/errors.ts'
import { retiredWorkers } from '../../core/limits.ts'
import type { WorkerRecord, WorkerRow } from '../../core/store/ports.ts'
import type { Connections } from './connect.ts'
import { type Durability, durabilityColumns } from './facts.ts'
import { isAlive, nowMs } from './functions.ts'
import { tidyPasts } from './past.ts'
import { isGone } from './presence.ts'
import { toWorker, type WorkerDbRow } from './rows.ts'
import { escapeAttributes, escapeText } from './text.ts'

export async function beat(
  connections: Connections,
  s: string,
  ns: number,
  worker: WorkerRecord,
): Promise<{ readonly ok: boolean; readonly now: number } & Durability> {
  const text = `WITH clock AS (SELECT ${nowMs} AS now), beaten AS (
      INSERT INTO ${s}.worker AS w (ns, id, name, host, process, lease_ms, info, progress, started_at, beat_at, progress_at)
      SELECT $1, $2, $3, $4, $5, $6, $7, $8, now, now, now FROM clock
      ON CONFLICT (ns, id) DO UPDATE SET name = excluded.name, host = excluded.host, process = excluded.process,
        lease_ms = excluded.lease_ms, info = excluded.info, progress = excluded.progress, beat_at = excluded.beat_at,
        progress_at = CASE WHEN w.progress = excluded.progress THEN w.progress_at ELSE excluded.beat_at END
        WHERE w.retired_at IS NULL
      RETURNING 1
    ) SELECT EXISTS (SELECT 1 FROM beaten) AS ok, now, ${durabilityColumns} FROM clock`
  const values = [
    ns,
    escapeText(worker.id),
    escapeText(worker.name),
    escapeText(worker.host),
    escapeText(worker.process),
    worker.leaseMs,
    JSON.stringify(escapeAttributes(worker.info)),
    worker.progress,
  ]
  const rows = await connections.rows<{ ok: boolean; now: number } & Durability>(text, values, 'safe', 'beat')
  return rows[0]!
}

export async function listWorkers(connections: Connections, s: string, ns: number): Promise<WorkerRow[]> {
  const text = `SELECT w.*, ${isAlive(nowMs)} AS is_alive, w.retired_at IS NOT NULL AS is_retired,
      ${isGone(s)} AS is_gone
    FROM ${s}.worker w WHERE w.ns = $1 ORDER BY w.id`
  return (await connections.rows<WorkerDbRow>(text, [ns], 'safe')).map(toWorker)
}

/**
 * Timelines are released in one order, as commits lock them. A concurrent take by such a worker ends up owned by a dead
 * one.
 */
export async function retire(connections: Connections, s: string, ns: number, ids: readonly WorkerId[]): Promise<void> {
  const workers = ids.map(escapeText)
  await connections.transaction('retiring workers', async (run) => {
    await run(
      `UPDATE ${s}.worker SET retired_at = ${nowMs} WHERE ns = $1 AND id = ANY ($2::text[]) AND retired_at IS NULL`,
      [ns, workers],
    )
    const owned = `SELECT tid FROM ${s}.timeline WHERE ns = $1 AND owner = ANY ($2::text[]) ORDER BY id FOR NO KEY UPDATE`
    await run(
      `WITH owned AS (${owned}) UPDATE ${s}.timeline t SET owner = NULL, updated_at = ${nowMs} FROM owned
       WHERE t.tid = owned.tid AND t.owner = ANY ($2::text[])`,
      [ns, workers],
    )
    // Rows of workers that no process needs any more.
    await run(
      `DELETE FROM ${s}.worker WHERE ns = $1 AND retired_at < least(${nowMs} - $3, (
         SELECT retired_at FROM ${s}.worker WHERE ns = $1 AND retired_at IS NOT NULL
         ORDER BY retired_at DESC OFFSET $2 LIMIT 1))`,
      [ns, retiredWorkers.kept - 1, retiredWorkers.keptMs],
    )
  })
}

/**
 * The server reuses the space of deleted chunks only after a vacuum, and autovacuum waits until a fifth of all rows has
 * changed. A refused vacuum (another one runs, the role may not, it takes too long) leaves it to autovacuum.
 */
async function reuseSpace(connections: Connections, s: string): Promise<void> {
  const text = `VACUUM (SKIP_LOCKED, TRUNCATE false) ${s}.chunk`
  await connections.rows(text, [], 'unsafe').catch(ignoring())
}

export async function tidy(
  connections: Connections,
  s: string,
  ns: number,
  before: number,
): Promise<{ readonly messages: number; readonly workers: number }> {
  const text = `WITH messages AS (
      DELETE FROM ${s}.message m USING ${s}.timeline t
      WHERE t.tid = m.tid AND t.ns = $1 AND m.consumed_at < $2 RETURNING 1
    ), workers AS (
      DELETE FROM ${s}.worker WHERE ns = $1 AND retired_at < $2 RETURNING 1
    ) SELECT (SELECT count(*) FROM messages) AS messages, (SELECT count(*) FROM workers) AS workers`
  const rows = await connections.rows<{ messages: number; workers: number }>(text, [ns, before], 'unsafe')
  // A stub without messages is left over from a refused commit.
  await connections.rows(
    `DELETE FROM ${s}.timeline t WHERE t.ns = $1 AND t.is_stub AND t.mail = 0 AND t.updated_at < $2
     AND NOT EXISTS (SELECT 1 FROM ${s}.message m WHERE m.tid = t.tid)`,
    [ns, before],
    'safe',
  )
  await tidyPasts(connections, s, ns, before)
  await reuseSpace(connections, s)
  return rows[0]!
}
