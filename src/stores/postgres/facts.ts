// What the server says about itself, and whether Reprise can stand on it: its version, its encoding, and the settings that
// durability rests on, read back rather than believed.

import { RepriseError } from '../../core/errors.ts'
import type { StoreFacts, StoreFault } from '../../core/ports.ts'
import type { Connections } from './connect.ts'
import { keepsErased } from './scrub.ts'
import { schemaVersion } from './tables.ts'

const oldestVersion = 140_000

interface Settings {
  readonly version: string
  readonly version_number: number
  readonly encoding: string
  readonly fsync: string
  readonly synchronous_commit: string
  readonly full_page_writes: string
  readonly data_checksums: string
  readonly is_read_only: boolean
}

async function readSettings(connections: Connections): Promise<Settings> {
  const rows = await connections.rows<Settings>(
    `SELECT current_setting('server_version') AS version, current_setting('server_version_num')::integer AS version_number,
      current_setting('server_encoding') AS encoding, current_setting('fsync') AS fsync,
      current_setting('synchronous_commit') AS synchronous_commit, current_setting('full_page_writes') AS full_page_writes,
      current_setting('data_checksums') AS data_checksums,
      current_setting('transaction_read_only') = 'on' OR pg_is_in_recovery() AS is_read_only`,
    [],
    'safe',
  )
  return rows[0]!
}

export async function checkServer(connections: Connections, isRelaxed: boolean): Promise<void> {
  const settings = await readSettings(connections)
  const { version, version_number, encoding, fsync, synchronous_commit, full_page_writes } = settings
  if (version_number < oldestVersion) {
    throw new RepriseError('STORE_UNSUPPORTED', `PostgreSQL must be 14 or newer (got ${version})`, { version })
  }
  if (encoding !== 'UTF8') {
    throw new RepriseError('STORE_UNSUPPORTED', `the encoding of the database must be UTF8 (got ${encoding})`, {
      encoding,
    })
  }
  const failure = isRelaxed ? null : durabilityFailure({ fsync, synchronous_commit, full_page_writes })
  if (failure) throw failure
}

/** The settings that durability rests on. */
export interface Durability {
  readonly fsync: string
  readonly synchronous_commit: string
  readonly full_page_writes: string
}

/** As columns of a statement that runs anyway: they are looked at again while the store is open. */
export const durabilityColumns = `current_setting('fsync') AS fsync, current_setting('synchronous_commit') AS synchronous_commit,
  current_setting('full_page_writes') AS full_page_writes`

/** Null: what is acknowledged is kept. */
export function durabilityFailure({ fsync, synchronous_commit, full_page_writes }: Durability): RepriseError | null {
  if (fsync === 'on' && synchronous_commit !== 'off' && full_page_writes === 'on') return null
  return new RepriseError(
    'STORE_DURABILITY',
    'the server may lose acknowledged commits: set fsync, full_page_writes and synchronous_commit to on, or open with ?durability=relaxed',
    { fsync, synchronous_commit, full_page_writes },
  )
}

export async function readFacts(connections: Connections, s: string, location: string): Promise<StoreFacts> {
  const { version, is_read_only, ...settings } = await readSettings(connections)
  const { fsync, synchronous_commit, full_page_writes, data_checksums } = settings
  const [size] = await connections.rows<{ bytes: number }>(
    `SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint AS bytes FROM pg_class c
     JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind = 'r'`,
    [s.slice(1, -1)],
    'safe',
  )
  return {
    kind: 'postgres',
    location,
    schemaVersion,
    durability: { server_version: version, fsync, synchronous_commit, full_page_writes, data_checksums },
    isReadOnly: is_read_only,
    sizeBytes: size!.bytes,
    keepsErased,
  }
}

/** Rows that contradict each other. Pages and indexes are the server's own to check (data_checksums, amcheck). */
export async function inspectRows(connections: Connections, s: string, ns: number): Promise<StoreFault[]> {
  const gaps = await connections.rows<StoreFault>(
    `SELECT x.id || '@' || x.first AS "where", 'the run before it ends at ' || x.before AS what FROM (
       SELECT t.id, r.first, coalesce(lag(r.last) OVER (PARTITION BY r.tid ORDER BY r.first), greatest(t.floor, coalesce(t.base_seq, 0))) AS before
       FROM ${s}.run r JOIN ${s}.timeline t ON t.tid = r.tid WHERE t.ns = $1
     ) x WHERE x.first <> x.before + 1 ORDER BY 1 LIMIT 1000`,
    [ns],
    'safe',
  )
  const heads = await connections.rows<StoreFault>(
    `SELECT t.id AS "where", 'history ends at ' || r.last || ', the head says ' || t.seq AS what FROM ${s}.timeline t
     CROSS JOIN LATERAL (SELECT coalesce((SELECT last FROM ${s}.run WHERE tid = t.tid ORDER BY first DESC LIMIT 1),
       greatest(t.floor, coalesce(t.base_seq, 0))) AS last) r
     WHERE t.ns = $1 AND NOT t.is_stub AND t.seq > r.last ORDER BY 1 LIMIT 1000`,
    [ns],
    'safe',
  )
  const mail = await connections.rows<StoreFault>(
    `SELECT t.id AS "where", 'its mail counter says ' || t.mail || ', ' || m.count || ' are unread' AS what FROM ${s}.timeline t
     CROSS JOIN LATERAL (SELECT count(*) AS count FROM ${s}.message WHERE tid = t.tid AND consumed_at IS NULL) m
     WHERE t.ns = $1 AND t.mail <> m.count ORDER BY 1 LIMIT 1000`,
    [ns],
    'safe',
  )
  return [...gaps, ...heads, ...mail, ...(await orphans(connections, s, ns))]
}

/** A timeline that is gone leaves no row behind: where there is one, its own row was lost, and lists are without it. */
async function orphans(connections: Connections, s: string, ns: number): Promise<StoreFault[]> {
  const left = (table: string, one: string, many: string) =>
    `SELECT 'timeline number ' || o.tid AS "where", 'it is gone, and ' || count(*)
       || CASE WHEN count(*) = 1 THEN ' ${one} of it is' ELSE ' ${many} of it are' END || ' left' AS what
     FROM ${s}.${table} o WHERE o.ns = $1 AND NOT EXISTS (SELECT FROM ${s}.timeline t WHERE t.tid = o.tid) GROUP BY o.tid`
  const lists = [
    left('run', 'run', 'runs'),
    left('manifest', 'checkpoint', 'checkpoints'),
    left('cursor', 'cursor', 'cursors'),
  ]
  return await connections.rows<StoreFault>(`${lists.join(' UNION ALL ')} ORDER BY 1, 2 LIMIT 1000`, [ns], 'safe')
}
