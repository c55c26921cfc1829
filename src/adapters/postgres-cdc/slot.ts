// Creates, inspects and measures the slot and the publication that a source reads through.

import type { Client } from 'pg'
import { driverMissing } from '../../core/driver-missing.ts'
import { RepriseError } from '../../core/errors.ts'
import { realTime, sleep } from '../../lib/waiting.ts'

export interface Slot {
  /** The server has all changes after this position. Null: the slot was never read. */
  readonly confirmed: bigint | null
  readonly activePid: number | null
  /** The server removed log that the slot still needed. */
  readonly isLost: boolean
}

export interface SlotLagOptions {
  readonly url: string
  readonly slot: string
}

export interface SlotLag {
  /** Size of the log that the server keeps for the slot: it grows while the pipeline does not run. */
  readonly bytes: number
  readonly isActive: boolean
  /** PostgreSQL's own status: reserved, extended, unreserved, lost. */
  readonly walStatus: string | null
}

/** Parses a log position in PostgreSQL's format. @example lsnOf('16/B374D848') */
export function lsnOf(text: string): bigint {
  const [high, low] = text.split('/')
  return (BigInt(`0x${high}`) << 32n) + BigInt(`0x${low}`)
}

export function lsnText(lsn: bigint): string {
  return `${(lsn >> 32n).toString(16)}/${(lsn & 0xffffffffn).toString(16)}`.toUpperCase()
}

export async function loadPg(): Promise<typeof import('pg')> {
  try {
    const loaded = await import('pg')
    return (loaded as unknown as { default?: typeof import('pg') }).default ?? loaded
  } catch (error) {
    throw driverMissing('reprise/postgres-cdc', ['pg'], error)
  }
}

export async function findSlot(client: Client, slot: string): Promise<Slot | null> {
  const { rows } = await client.query(
    'SELECT confirmed_flush_lsn::text AS confirmed, active_pid, wal_status FROM pg_replication_slots WHERE slot_name = $1',
    [slot],
  )
  const [found] = rows as { confirmed: string | null; active_pid: number | null; wal_status: string | null }[]
  if (!found) return null
  return {
    confirmed: found.confirmed === null ? null : lsnOf(found.confirmed),
    activePid: found.active_pid,
    isLost: found.wal_status === 'lost',
  }
}

/** Terminates the current reader of the slot: an owner that was replaced. */
export async function freeSlot(client: Client, slot: string): Promise<void> {
  for (let attempt = 0; attempt < 500; attempt++) {
    const found = await findSlot(client, slot)
    if (!found || found.activePid === null) return
    await client.query('SELECT pg_terminate_backend($1)', [found.activePid])
    await sleep(realTime, 20)
  }
  throw new RepriseError(
    'OWNED',
    `the replication slot ${slot} is in use by another reader, which did not disconnect`,
    { slot },
  )
}

/** Creates the publication if it does not exist and tables are named; NOT_FOUND otherwise. */
export async function ensurePublication(
  client: Client,
  publication: string,
  tables: readonly string[] | null,
): Promise<void> {
  const { rows } = await client.query('SELECT 1 FROM pg_publication WHERE pubname = $1', [publication])
  if (rows.length > 0) return
  if (!tables) {
    const hint = 'Name its tables at the source, or make it with CREATE PUBLICATION.'
    throw new RepriseError('NOT_FOUND', `there is no publication ${publication}`, { publication }, undefined, hint)
  }
  await client.query(`CREATE PUBLICATION ${quoted(publication)} FOR TABLE ${tables.map(quotedTable).join(', ')}`)
}

export async function tablesOf(client: Client, publication: string): Promise<{ schema: string; table: string }[]> {
  const text =
    'SELECT schemaname AS schema, tablename AS table FROM pg_publication_tables WHERE pubname = $1 ORDER BY 1, 2'
  return (await client.query(text, [publication])).rows
}

/** Measures how far a slot is behind. @example await slotLag({ url, slot: 'reprise_orders_in' }) */
export async function slotLag({ url, slot }: SlotLagOptions): Promise<SlotLag> {
  const { Client } = await loadPg()
  const client = new Client({ connectionString: url })
  await client.connect()
  try {
    const { rows } = await client.query(
      `SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn)::text AS bytes, active, wal_status
       FROM pg_replication_slots WHERE slot_name = $1`,
      [slot],
    )
    const [found] = rows as { bytes: string | null; active: boolean; wal_status: string | null }[]
    if (!found) {
      const hint = 'The first run of a pipeline creates its slot. Check the name and the server.'
      throw new RepriseError('NOT_FOUND', `there is no replication slot ${slot}`, { slot }, undefined, hint)
    }
    return { bytes: Number(found.bytes ?? 0), isActive: found.active, walStatus: found.wal_status }
  } finally {
    await client.end()
  }
}

export function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

/** `table` or `schema.table`. */
export function quotedTable(name: string): string {
  return name.split('.').map(quoted).join('.')
}
