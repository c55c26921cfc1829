// The tables. Every key of history starts with the timeline's number (tid), which never changes: a rollback renames a
// timeline, and its rows stay in place. Times are milliseconds of the database's clock.
// pos is the order of the feed: the namespace's pos_base plus the number of the transaction that wrote the run. A
// reader stays below the oldest running transaction, so nothing can appear before its position. Inside one transaction the run's
// id decides, which follows the order of the batch.

import { pastTable, requestTable } from './sql.ts'

/** The version of tables and functions together. Function names contain it: code of another version finds none. */
export const schemaVersion = 12

/** The changes of each version to the previous one. */
const upgrades: Readonly<Record<number, (s: string) => string>> = {
  2: (s) => `
ALTER TABLE ${s}.run DROP CONSTRAINT run_pkey, ADD PRIMARY KEY (tid, first), ALTER COLUMN operation DROP NOT NULL;
ALTER TABLE ${s}.timeline ADD COLUMN pos_base bigint NOT NULL DEFAULT 0;
ALTER TABLE ${s}.timeline ALTER COLUMN pos_base DROP DEFAULT;
UPDATE ${s}.timeline t SET pos_base = n.pos_base FROM ${s}.namespace n WHERE n.id = t.ns AND n.pos_base > 0;`,
  // Functions only.
  3: () => '',
  // Functions, and an index for forks of deleted timelines.
  4: (s) =>
    `CREATE INDEX timeline_orphan ON ${s}.timeline (ns, base_id) WHERE base_tid IS NULL AND base_id IS NOT NULL;`,
  // Functions, and the sweep mark.
  5: (s) => `ALTER TABLE ${s}.namespace ADD COLUMN sweep_mark double precision NOT NULL DEFAULT 0;`,
  // Functions, an index of due timelines in claim order, and one by status (replaced by version 8).
  6: (s) => `DROP INDEX ${s}.timeline_wakeup; DROP INDEX ${s}.timeline_mail; ${dueIndex(s)}`,
  // Functions, an index of workers in the order of their retirement, and earlier vacuums.
  7: (s) => retiredIndex(s) + vacuumSettings(s),
  // Functions, and an index of statuses that is used for status queries only.
  8: (s) => `DROP INDEX IF EXISTS ${s}.timeline_status; ${statusIndex(s)}`,
  // Functions, and lives of timelines.
  9: (s) =>
    `ALTER TABLE ${s}.timeline ADD COLUMN life bigint NOT NULL DEFAULT 1;
ALTER TABLE ${s}.namespace ADD COLUMN identity text;
${created(s, pastTable)}`,
  // Functions, and a checksum of the lives of forgotten ids.
  10: pastChecksum,
  // Functions, and the requests of applications.
  11: (s) => created(s, requestTable),
  // Functions only: commands and appends that SQL sends are taken by the workers of their definition.
  12: () => '',
}

const created = (s: string, table: string) => table.replaceAll('reprise.', `${s}.`)

/** When it became due; mail sorts first. */
export const dueSince = (t: string) => `(CASE WHEN ${t}.mail > 0 THEN 0 ELSE ${t}.wakeup END)`

/** May be due, and has no owner. */
export const isFree = (t: string) =>
  `(${t}.owner IS NULL AND NOT ${t}.is_stub AND ${t}.queue IS NOT NULL AND (${t}.mail > 0 OR ${t}.wakeup IS NOT NULL))`

function dueIndex(s: string): string {
  return `CREATE INDEX timeline_due ON ${s}.timeline (ns, queue, priority DESC, ${dueSince('timeline')}, id) WHERE ${isFree('timeline')};`
}

/**
 * True for every row, and part of status queries only. Otherwise the planner would use this index for id lookups, too,
 * while the table is small: it then reads one page, and later all of them, because plans are cached.
 */
export const hasStatus = (t: string) => `${t}.status >= ''`

function statusIndex(s: string): string {
  return `CREATE INDEX timeline_status ON ${s}.timeline (ns, status, id) WHERE ${hasStatus('timeline')};`
}

/**
 * The server computes the checksum at every write, and readers compute it again: a life that is too low would give an id
 * the identity of a timeline that was deleted. Every part has one text, whatever the settings of a session.
 */
function pastChecksum(s: string): string {
  return `ALTER TABLE ${s}.past ADD COLUMN checksum text GENERATED ALWAYS AS (${checksumOf('')}) STORED;`
}

/** True for a row of the past that is unchanged since it was written. */
export const isSoundPast = (p: string) => `(${p}.checksum = ${checksumOf(`${p}.`)})`

function checksumOf(p: string): string {
  const parts = [
    `${p}ns::text`,
    `${p}name`,
    `${p}life::text`,
    `${p}epoch::text`,
    `encode(float8send(${p}forgotten_at), 'hex')`,
  ]
  return `md5(${parts.join(" || ' ' || ")})`
}

function retiredIndex(s: string): string {
  return `CREATE INDEX worker_retired ON ${s}.worker (ns, retired_at) WHERE retired_at IS NOT NULL;`
}

/**
 * Rows of these tables are updated in place or deleted after a while. Autovacuum waits until a fifth of a table is
 * dead, so that large ones stay a fifth larger, and index scans visit all of it: a twentieth is enough. Cursors and
 * workers are few rows that change constantly: their pages keep room for that (HOT), and are cleaned after a few
 * dozen changes.
 */
function vacuumSettings(s: string): string {
  const early = 'autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.1'
  const large = ['run', 'message', 'manifest', 'chunk'].map((table) => `ALTER TABLE ${s}.${table} SET (${early});`)
  const busy = ['cursor', 'worker'].map(
    (table) => `ALTER TABLE ${s}.${table} SET (fillfactor = 50, ${early}, autovacuum_vacuum_threshold = 50);`,
  )
  return [...large, ...busy].join('\n')
}

export function upgradeTables(s: string, from: number): string {
  return Object.entries(upgrades)
    .filter(([version]) => Number(version) > from)
    .map(([, upgrade]) => upgrade(s))
    .join('\n')
}
