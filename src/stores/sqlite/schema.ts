// The tables, their version, and the migrations of an older file. User tables may be in the same file, so ours all start with
// reprise_.
//
//   log        one row per transaction, positions without gaps; log-row.ts owns the format. A trimmed row stays, empty: a
//              missing row is damage, not trimming.
//   anchor     the positions of some runs (log.ts decides which), so that a read need not start at the head
//   head       the part of a timeline that every append changes, packed with a checksum (head-state.ts): written in place
//   timeline   the rest of it (`key` was the second index of names; witness has replaced it)
//   witness, head_mark   the expected rows of a timeline, stored apart: damage to one page cannot hide it (row-counts.ts); a
//              copy of the head is present too
//   tally      the expected number of rows of a list (tally.ts)
//   chunk      the existing chunks; their bytes are in one table per stripe (blobs.ts), those of older versions in one
//   identity   the external identity of a namespace (identity.ts)
//   past       the last life of each forgotten id, twice (past.ts)
//   request    starts and messages that applications wrote in transactions of their own, three times (requests.ts)
//   sweep      trimmed or forgotten history whose space is not freed yet
//
// Unpacked rows, except requests, have `crc` over their other columns (row-checksum.ts). `space` is the number of a namespace.

import { stripes } from '../../core/checkpoint/parity.ts'
import { RepriseError } from '../../core/errors.ts'
import type { Connection } from './file/connection.ts'
import { damaged } from './file/failure.ts'
import { identityTable } from './rows/identity.ts'
import { pastCopy, pastTable } from './rows/past.ts'
import { requestCopies } from './rows/request-copies.ts'
import { checkRow, checksumOf } from './rows/row-checksum.ts'
import { copyAndChecksum, witnessAll } from './rows/row-counts.ts'
import { tallyAll, tallyStatus } from './rows/tally.ts'

export const schemaVersion = 9

const version1 = `
CREATE TABLE reprise_meta (key TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID;
CREATE TABLE reprise_space (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, crc INTEGER NOT NULL);
CREATE TABLE reprise_log (position INTEGER PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE reprise_anchor (tid INTEGER NOT NULL, last INTEGER NOT NULL, position INTEGER NOT NULL,
  PRIMARY KEY (tid, last)) WITHOUT ROWID;
CREATE TABLE reprise_head (tid INTEGER PRIMARY KEY, state BLOB NOT NULL);
CREATE TABLE reprise_timeline (tid INTEGER PRIMARY KEY AUTOINCREMENT, space INTEGER NOT NULL, name TEXT NOT NULL,
  key INTEGER NOT NULL, is_stub INTEGER NOT NULL, parent INTEGER, owner TEXT, queue TEXT, priority NOT NULL,
  status TEXT NOT NULL, wakeup, mail INTEGER NOT NULL, due, checkpoints INTEGER NOT NULL, cursors INTEGER NOT NULL,
  attributes TEXT NOT NULL, created_at NOT NULL, crc INTEGER NOT NULL, UNIQUE (space, name));
CREATE INDEX reprise_timeline_key ON reprise_timeline (key);
CREATE INDEX reprise_timeline_parent ON reprise_timeline (parent) WHERE parent IS NOT NULL;
CREATE INDEX reprise_timeline_owner ON reprise_timeline (space, owner) WHERE owner IS NOT NULL;
CREATE INDEX reprise_timeline_due ON reprise_timeline (space, queue, due) WHERE due IS NOT NULL;
CREATE INDEX reprise_timeline_cursors ON reprise_timeline (space) WHERE cursors > 0;
CREATE TABLE reprise_attribute (tid INTEGER NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL,
  PRIMARY KEY (tid, key)) WITHOUT ROWID;
CREATE INDEX reprise_attribute_value ON reprise_attribute (key, value, tid);
CREATE TABLE reprise_inbox (number INTEGER PRIMARY KEY AUTOINCREMENT, tid INTEGER NOT NULL, id TEXT NOT NULL,
  kind TEXT NOT NULL, data BLOB NOT NULL, sent_at NOT NULL, consumed_at, crc INTEGER NOT NULL, UNIQUE (tid, id));
CREATE INDEX reprise_inbox_unread ON reprise_inbox (tid, number) WHERE consumed_at IS NULL;
CREATE INDEX reprise_inbox_consumed ON reprise_inbox (consumed_at) WHERE consumed_at IS NOT NULL;
CREATE TABLE reprise_manifest (number INTEGER PRIMARY KEY AUTOINCREMENT, space INTEGER NOT NULL, id TEXT NOT NULL,
  tid INTEGER NOT NULL, seq INTEGER NOT NULL, epoch INTEGER NOT NULL, digest BLOB NOT NULL, body BLOB NOT NULL,
  body_digest BLOB NOT NULL, base_id TEXT, created_at NOT NULL, trigger TEXT NOT NULL, label TEXT,
  is_pinned INTEGER NOT NULL, fold_version TEXT NOT NULL, total_bytes NOT NULL, added_bytes NOT NULL, verified_at,
  invalid TEXT, drilled_at, drill TEXT, crc INTEGER NOT NULL, UNIQUE (space, id));
CREATE INDEX reprise_manifest_timeline ON reprise_manifest (tid, seq, number);
CREATE TABLE reprise_cursor (space INTEGER NOT NULL, name TEXT NOT NULL, tid INTEGER NOT NULL, position TEXT NOT NULL,
  moved_at NOT NULL, crc INTEGER NOT NULL, PRIMARY KEY (space, name)) WITHOUT ROWID;
CREATE INDEX reprise_cursor_timeline ON reprise_cursor (tid);
CREATE TABLE reprise_worker (space INTEGER NOT NULL, id TEXT NOT NULL, name TEXT NOT NULL, host TEXT NOT NULL,
  process TEXT NOT NULL, lease_ms NOT NULL, info TEXT NOT NULL, progress NOT NULL, started_at NOT NULL,
  beat_at NOT NULL, progress_at NOT NULL, retired_at, crc INTEGER NOT NULL, PRIMARY KEY (space, id)) WITHOUT ROWID;
CREATE TABLE reprise_chunk (id INTEGER PRIMARY KEY, space INTEGER NOT NULL, digest BLOB NOT NULL, size INTEGER NOT NULL,
  touched_at NOT NULL, UNIQUE (space, digest));
CREATE TABLE reprise_chunk_bytes (id INTEGER PRIMARY KEY, bytes BLOB NOT NULL);
CREATE TABLE reprise_sweep (tid INTEGER PRIMARY KEY, done INTEGER NOT NULL, last INTEGER NOT NULL,
  position INTEGER NOT NULL);
`

/**
 * Absence is checked: see row-counts.ts and tally.ts. `wake` is the twin of `due`: each has the rows that the other may lack.
 */
const version2 = `
DROP INDEX reprise_timeline_key;
CREATE INDEX reprise_timeline_wake ON reprise_timeline (due, space, queue) WHERE due IS NOT NULL;
CREATE TABLE reprise_witness (space INTEGER NOT NULL, name TEXT NOT NULL, tid INTEGER NOT NULL, row INTEGER NOT NULL,
  mail INTEGER NOT NULL, checkpoints INTEGER NOT NULL, cursors INTEGER NOT NULL, forks INTEGER NOT NULL,
  PRIMARY KEY (space, name)) WITHOUT ROWID;
CREATE TABLE reprise_head_mark (tid INTEGER PRIMARY KEY, crc INTEGER NOT NULL);
CREATE TABLE reprise_tally (kind TEXT NOT NULL, key TEXT NOT NULL, count INTEGER NOT NULL, sum INTEGER NOT NULL,
  PRIMARY KEY (kind, key)) WITHOUT ROWID;
${tallyAll}
`

/** One table per stripe: one damaged page, even an upper one of a tree, affects the chunks of one stripe. */
const version3 = Array.from(
  { length: stripes },
  (_, stripe) => `
CREATE TABLE reprise_chunk_bytes_${stripe} (id INTEGER PRIMARY KEY, bytes BLOB NOT NULL);`,
).join('')

/**
 * Due timelines without an owner, in claim order: neither sleeping nor owned timelines are read. `wake` still has all due
 * timelines, and checks this index (due.ts). Also an index of timelines by status.
 */
const version4 = `
DROP INDEX reprise_timeline_due;
CREATE INDEX reprise_timeline_due ON reprise_timeline (space, queue, priority DESC, due, name)
  WHERE due IS NOT NULL AND owner IS NULL AND queue IS NOT NULL;
CREATE INDEX reprise_timeline_status ON reprise_timeline (space, status);
${tallyStatus}
`

/** A second copy of each head, beside its mark; a witness has a checksum, which shows which of two is wrong. */
const version6 = `
ALTER TABLE reprise_head_mark ADD COLUMN state BLOB;
ALTER TABLE reprise_witness ADD COLUMN crc INTEGER;
`

/** Requests of applications: a row that could never be read is refused in the transaction that writes it (requests.ts). */
const version8 = `
CREATE TABLE reprise_request (number INTEGER PRIMARY KEY AUTOINCREMENT, namespace TEXT NOT NULL DEFAULT 'default',
  verb TEXT NOT NULL CHECK (verb IN ('start', 'signal', 'send', 'cancel')),
  target TEXT NOT NULL CHECK (length(target) BETWEEN 1 AND 512),
  id TEXT NOT NULL DEFAULT (lower(hex(randomblob(8)))) CHECK (length(id) BETWEEN 1 AND 512), topic TEXT,
  data CHECK (CASE typeof(data) WHEN 'null' THEN 1 WHEN 'text' THEN json_valid(data) ELSE typeof(data) = 'blob' END),
  key TEXT, options TEXT CHECK (options IS NULL OR json_valid(options)),
  sent_at INTEGER NOT NULL DEFAULT (CAST(strftime('%s', 'now') AS INTEGER) * 1000), taken_by TEXT, problem TEXT);
CREATE INDEX reprise_request_waiting ON reprise_request (namespace, target, number) WHERE problem IS NULL;
`

/** Migrations from version to version; the first creates the tables. */
const steps: readonly ((connection: Connection) => void)[] = [
  (connection) => connection.exec(version1),
  (connection) => {
    connection.exec(version2)
    witnessAll(connection, true)
  },
  (connection) => connection.exec(version3),
  (connection) => connection.exec(version4),
  // Rows of the log that represent several rows (empty-rows.ts): an older release would report them as damage.
  () => undefined,
  // Heads have a life (head-state.ts) and a second copy, and the lives of forgotten ids are stored.
  (connection) => {
    connection.exec(version6 + pastTable + identityTable)
    copyAndChecksum(connection)
  },
  // The lives of forgotten ids have a second copy.
  (connection) => connection.exec(pastCopy),
  (connection) => connection.exec(version8),
  // Requests have two more copies.
  (connection) => connection.exec(requestCopies),
]

/** 0 for a file without our tables. A newer version is refused here, before anything is written. */
export function readVersion(connection: Connection): number {
  const found = connection.get(`SELECT count(*) AS tables FROM sqlite_schema WHERE name = 'reprise_meta'`)
  if (!found?.tables) return 0
  const version = connection.get(`SELECT value FROM reprise_meta WHERE key = 'schema_version'`)?.value
  if (typeof version !== 'number' || !Number.isSafeInteger(version) || version < 1) {
    throw damaged('the store has no schema version', { version: String(version) })
  }
  // The version is stored twice since version 6: a flipped bit is mistaken neither for a newer release nor for an older one.
  const copy = connection.get(`SELECT value FROM reprise_meta WHERE key = 'schema_copy'`)?.value
  if ((copy ?? null) !== (version > 5 ? version : null)) {
    throw damaged(`the store has schema version ${version}, and ${copy}`, { version, copy: String(copy) })
  }
  if (version > schemaVersion) {
    throw new RepriseError(
      'INCOMPATIBLE_VERSION',
      `the store has schema version ${version}, but this version of Reprise supports up to ${schemaVersion}`,
      { version, known: schemaVersion },
    )
  }
  checkSchema(connection)
  return version
}

/** A flipped bit in a table's SQL could rename a column or drop a constraint, and SQLite would accept it. */
function checkSchema(connection: Connection): void {
  const expected = connection.get(`SELECT value FROM reprise_meta WHERE key = 'schema_crc'`)?.value
  if (expected !== schemaCrc(connection)) throw damaged('the schema of the store does not match its checksum')
}

function schemaCrc(connection: Connection): number {
  const sql = `SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE tbl_name LIKE 'reprise\\_%' ESCAPE '\\'
    AND type IN ('table', 'index') ORDER BY type, name`
  return checksumOf(
    connection.all(sql).flatMap(({ type, name, tbl_name, sql: text }) => [type!, name!, tbl_name!, text!]),
  )
}

/** Call inside a write transaction. */
export function migrate(connection: Connection): void {
  const version = readVersion(connection)
  for (const step of steps.slice(version)) step(connection)
  if (version < schemaVersion) {
    const set = 'INSERT OR REPLACE INTO reprise_meta (key, value) VALUES (?, ?)'
    connection.run(set, 'schema_version', schemaVersion)
    connection.run(set, 'schema_copy', schemaVersion)
    connection.run(set, 'schema_crc', schemaCrc(connection))
  }
}

/** The number of a namespace, or null if it was never written. A missing name is checked in two places. */
export function findSpace(connection: Connection, namespace: string): number | null {
  const row = connection.get('SELECT id, name, crc FROM reprise_space WHERE name = ?', namespace)
  if (row) checkRow(row, ['id', 'name'], `namespace ${row.id}`)
  if (row && row.name !== namespace) throw damaged(`the index of namespaces leads from ${namespace} to ${row.name}`)
  const all = row ? [] : connection.all('SELECT id, name, crc FROM reprise_space NOT INDEXED')
  for (const space of all) checkRow(space, ['id', 'name'], `namespace ${space.id}`)
  const count = row ? 0 : Number(connection.get(`SELECT value FROM reprise_meta WHERE key = 'spaces'`)?.value ?? 0)
  if (all.some((space) => space.name === namespace) || count > all.length) {
    throw damaged(`the index of namespaces is damaged: ${namespace} or another is missing`, { namespace })
  }
  return row ? (row.id as number) : null
}

export function listSpaces(connection: Connection): string[] {
  return connection.all('SELECT name FROM reprise_space ORDER BY id').map(({ name }) => String(name))
}

/** Call inside a write transaction. */
export function makeSpace(connection: Connection, namespace: string): number {
  const found = findSpace(connection, namespace)
  if (found !== null) return found
  const id = Number(connection.get('SELECT coalesce(max(id), 0) + 1 AS id FROM reprise_space')?.id)
  connection.run(
    'INSERT INTO reprise_space (id, name, crc) VALUES (?, ?, ?)',
    id,
    namespace,
    checksumOf([id, namespace]),
  )
  connection.run(`INSERT OR REPLACE INTO reprise_meta (key, value) VALUES ('spaces', ?)`, id)
  return id
}
