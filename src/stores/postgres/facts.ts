// The facts of a server, and whether they suffice for Reprise: its version, its encoding, and the settings that
// durability depends on, read back rather than assumed.

import { RepriseError } from '../../core/errors.ts'
import type { StoreFacts } from '../../core/store/ports.ts'
import type { LogArchive } from '../../core/store/store-facts.ts'
import type { Connections } from './connect.ts'
import { keepsErased } from './scrub.ts'
import { type Meaning, meaningColumn, meaningFailure } from './session-settings.ts'
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
  readonly meaning: Meaning
}

async function readSettings(connections: Connections): Promise<Settings> {
  const rows = await connections.rows<Settings>(
    `SELECT current_setting('server_version') AS version, current_setting('server_version_num')::integer AS version_number,
      current_setting('server_encoding') AS encoding, current_setting('fsync') AS fsync,
      current_setting('synchronous_commit') AS synchronous_commit, current_setting('full_page_writes') AS full_page_writes,
      current_setting('data_checksums') AS data_checksums, ${meaningColumn},
      current_setting('transaction_read_only') = 'on' OR pg_is_in_recovery() AS is_read_only`,
    [],
    'safe',
  )
  return rows[0]!
}

export async function checkServer(connections: Connections, isRelaxed: boolean): Promise<void> {
  const settings = await readSettings(connections)
  const { version, version_number, encoding } = settings
  if (version_number < oldestVersion) {
    throw new RepriseError('STORE_UNSUPPORTED', `PostgreSQL must be 14 or newer (got ${version})`, { version })
  }
  if (encoding !== 'UTF8') {
    throw new RepriseError('STORE_UNSUPPORTED', `the encoding of the database must be UTF8 (got ${encoding})`, {
      encoding,
    })
  }
  const failure = settingsFailure(settings, isRelaxed)
  if (failure) throw failure
}

/** The settings that durability and the meaning of statements depend on. */
export interface Durability {
  readonly meaning: Meaning
  readonly fsync: string
  readonly synchronous_commit: string
  readonly full_page_writes: string
}

/** As columns of a statement that runs anyway: they are checked again while the store is open. */
export const durabilityColumns = `current_setting('fsync') AS fsync, current_setting('synchronous_commit') AS synchronous_commit,
  current_setting('full_page_writes') AS full_page_writes, ${meaningColumn}`

/** Null: acknowledged commits are kept, and statements have the required meaning. */
export function settingsFailure(settings: Durability, isRelaxed: boolean): RepriseError | null {
  return meaningFailure(settings.meaning) ?? (isRelaxed ? null : durabilityFailure(settings))
}

function durabilityFailure({ fsync, synchronous_commit, full_page_writes }: Durability): RepriseError | null {
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
    archive: await readArchive(connections),
  }
}

async function readArchive(connections: Connections): Promise<LogArchive> {
  const ms = (value: string) => `(extract(epoch FROM ${value}) * 1000)::double precision`
  const rows = await connections.rows<LogArchive>(
    `SELECT current_setting('server_version_num')::integer / 10000 AS major, current_user::text AS user,
      current_database()::text AS database, coalesce((SELECT rolreplication OR rolsuper FROM pg_roles
        WHERE rolname = current_user), false) AS "mayReplicate", current_setting('wal_level') AS "walLevel",
      current_setting('max_wal_senders')::integer AS "walSendersMax", current_setting('archive_mode') AS mode,
      current_setting('archive_command') AS command,
      ${ms(`current_setting('archive_timeout')::interval`)} AS "timeoutMs", ${ms('last_archived_time')} AS "archivedAt",
      ${ms('last_failed_time')} AS "failedAt" FROM pg_stat_archiver`,
    [],
    'safe',
  )
  return rows[0]!
}
