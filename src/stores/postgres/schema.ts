// The schema: created and upgraded automatically, under a lock, so that many processes may open at once. Data of a
// newer version is refused before anything is written.

import { RepriseError } from '../../core/errors.ts'
import type { Connections, RunSql } from './connect.ts'
import { dropFunctions, nowMs, sqlFor } from './functions.ts'
import {
  appendFunctions,
  commitFunctions,
  lifeFunctions,
  pastTable,
  readFunctions,
  requestFunctions,
  requestTable,
  tables,
} from './sql.ts'
import { schemaVersion, upgradeTables } from './tables.ts'

/** @example quoteSchema('reprise') // '"reprise"' */
export function quoteSchema(name: string): string {
  if (!/^[a-z_][a-z0-9_]{0,40}$/.test(name)) {
    throw new RepriseError(
      'INVALID_ARGUMENT',
      'the name of a schema must have 1 to 41 lower-case letters, digits and underscores',
      {
        schema: name.slice(0, 80),
      },
    )
  }
  return `"${name}"`
}

/** The number of the namespace, created if it is missing. */
export async function prepareSchema(connections: Connections, s: string, namespace: string): Promise<number> {
  if ((await readVersion(connections, s)) !== schemaVersion) await migrate(connections, s)
  const found = await findNamespace(connections, s, namespace)
  const id = found ?? (await makeNamespace(connections, s, namespace))
  await repairFeed(connections, s, id)
  return id
}

/** The same for a read-only process: nothing is created, and a missing namespace is empty (0). */
export async function findSchema(connections: Connections, s: string, namespace: string): Promise<number> {
  const version = await readVersion(connections, s)
  if (version === 0) {
    throw new RepriseError('NOT_FOUND', `there is no store in the schema ${s}: open it for writing to create one`)
  }
  if (version < schemaVersion) {
    throw new RepriseError(
      'INCOMPATIBLE_VERSION',
      `the store has schema version ${version}: open it for writing to upgrade it to ${schemaVersion}`,
      { found: version, known: schemaVersion },
    )
  }
  return (await findNamespace(connections, s, namespace)) ?? 0
}

async function readVersion(connections: Connections, s: string): Promise<number> {
  const text = 'SELECT to_regclass($1) IS NOT NULL AS is_there'
  const rows = await connections.rows<{ is_there: boolean }>(text, [`${s}.meta`], 'safe')
  if (!rows[0]!.is_there) return 0
  const [meta] = await connections.rows<{ version: number }>(`SELECT version FROM ${s}.meta`, [], 'safe')
  return checkVersion(meta?.version ?? 0)
}

function checkVersion(version: number): number {
  if (version > schemaVersion) {
    throw new RepriseError(
      'INCOMPATIBLE_VERSION',
      `the store has schema version ${version}, but this version of Reprise supports up to ${schemaVersion}`,
      {
        found: version,
        known: schemaVersion,
      },
    )
  }
  return version
}

/** Upgrading large tables takes long, and so does waiting for it. */
const migrateTimeoutMs = 3_600_000

async function migrate(connections: Connections, s: string): Promise<void> {
  const work = async (run: RunSql) => {
    await run(`SELECT pg_advisory_xact_lock(hashtextextended('reprise' || $1, 0))`, [s])
    const version = await readVersionInside(run, s)
    if (version === schemaVersion) return
    if (version === 0) await makeTables(run, s)
    else {
      await retireAll(run, s)
      await run(upgradeTables(s, version) + dropFunctions(s, version))
    }
    await run(sqlFor(s, appendFunctions + readFunctions + lifeFunctions + requestFunctions + commitFunctions))
    await run(`UPDATE ${s}.meta SET version = ${schemaVersion}`)
  }
  await connections.transaction('making the schema', work, migrateTimeoutMs)
}

/**
 * Workers of an older release still send heartbeats, but can no longer commit: their timelines would wait for as
 * long as they live. Runs before the tables are locked: a running commit has its rows, and reads a worker next.
 */
async function retireAll(run: RunSql, s: string): Promise<void> {
  await run(`UPDATE ${s}.worker SET retired_at = ${nowMs} WHERE retired_at IS NULL`)
  await run(
    `WITH owned AS (SELECT tid FROM ${s}.timeline WHERE owner IS NOT NULL ORDER BY id FOR NO KEY UPDATE)
     UPDATE ${s}.timeline t SET owner = NULL, updated_at = ${nowMs} FROM owned WHERE t.tid = owned.tid`,
  )
}

async function makeTables(run: RunSql, s: string): Promise<void> {
  const { rows } = await run('SELECT 1 FROM pg_namespace WHERE nspname = $1', [s.slice(1, -1)])
  if (rows.length === 0) await run(`CREATE SCHEMA ${s}`)
  await run(sqlFor(s, pastTable + requestTable + tables))
  await run(`INSERT INTO ${s}.meta (version) VALUES (0)`)
}

async function readVersionInside(run: RunSql, s: string): Promise<number> {
  // A query, not to_regclass: that would answer from this connection's cache from before the lock.
  const { rows } = await run(
    `SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = 'meta'`,
    [s.slice(1, -1)],
  )
  if (rows.length === 0) return 0
  const meta = await run(`SELECT version FROM ${s}.meta`)
  return checkVersion((meta.rows[0] as { version: number } | undefined)?.version ?? 0)
}

async function findNamespace(connections: Connections, s: string, name: string): Promise<number | undefined> {
  const rows = await connections.rows<{ id: number }>(`SELECT id FROM ${s}.namespace WHERE name = $1`, [name], 'safe')
  return rows[0]?.id
}

async function makeNamespace(connections: Connections, s: string, name: string): Promise<number> {
  const text = `INSERT INTO ${s}.namespace (name) VALUES ($1) ON CONFLICT (name) DO UPDATE SET name = excluded.name RETURNING id`
  const rows = await connections.rows<{ id: number }>(text, [name], 'safe')
  return rows[0]!.id
}

/**
 * A dump restored into a younger cluster: transaction numbers restart below those in the rows. The namespace's base is
 * raised above them, so that positions in the feed keep growing.
 */
async function repairFeed(connections: Connections, s: string, ns: number): Promise<void> {
  const isBehind = `SELECT n.pos_base + pg_snapshot_xmax(pg_current_snapshot())::text::bigint <= greatest(
      coalesce((SELECT r.pos FROM ${s}.run r WHERE r.ns = n.id ORDER BY r.pos DESC LIMIT 1), 0),
      coalesce((SELECT substr(max(c.position), 1, 16)::bigint FROM ${s}.cursor c WHERE c.ns = n.id AND ${isPosition('c.position')}), 0)
    ) AS is_behind FROM ${s}.namespace n WHERE n.id = $1`
  const [row] = await connections.rows<{ is_behind: boolean }>(isBehind, [ns], 'safe')
  if (!row?.is_behind) return
  await connections.transaction('raising the base of the feed', async (run) => {
    // A commit that creates a timeline reads this table, and one that appends locks its row: the lock waits for both,
    // and later commits see the new base.
    await run(`LOCK TABLE ${s}.namespace IN ACCESS EXCLUSIVE MODE`)
    const again = await run(isBehind, [ns])
    if (!(again.rows[0] as { is_behind: boolean }).is_behind) return
    await run(
      `UPDATE ${s}.namespace SET pos_base = 1 + greatest(
        coalesce((SELECT max(pos) FROM ${s}.run WHERE ns = $1), 0),
        coalesce((SELECT max(last_pos) FROM ${s}.timeline WHERE ns = $1), 0),
        coalesce((SELECT substr(max(position), 1, 16)::bigint FROM ${s}.cursor WHERE ns = $1 AND ${isPosition('position')}), 0)
      ) WHERE id = $1`,
      [ns],
    )
    const rows = `UPDATE ${s}.timeline t SET pos_base = n.pos_base FROM ${s}.namespace n WHERE n.id = $1 AND t.ns = n.id`
    await run(rows, [ns])
  })
}

function isPosition(column: string): string {
  return `${column} ~ '^[0-9]{16}-[0-9]{16}$'`
}
