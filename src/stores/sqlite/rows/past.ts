// The lives of forgotten ids (ports.ts, past): one small row per id, by the digest of its name. The row named '' holds the
// life above which ids without a past start. An index repeats every column as a second copy: a row with a damaged name would
// not be found, and its id would reuse the keys of its first life. A life is therefore read from both, and an intact row of
// either counts; if both are intact, the higher life is used.

import type { TimelineId } from '../../../core/coordinate.ts'
import { pastName } from '../../../core/identity.ts'
import { pastLives } from '../../../core/limits.ts'
import type { PastLife } from '../../../core/store/ports.ts'
import { runtime } from '../../../lib/runtime/index.ts'
import type { Connection } from '../file/connection.ts'
import type { SqlRow } from '../file/driver.ts'
import { damaged } from '../file/failure.ts'
import { checkRow, checksumOf, isIntact } from './row-checksum.ts'

export const pastTable = `
CREATE TABLE reprise_past (space INTEGER NOT NULL, name TEXT NOT NULL, life INTEGER NOT NULL, epoch INTEGER NOT NULL,
  forgotten_at NOT NULL, crc INTEGER NOT NULL, PRIMARY KEY (space, name)) WITHOUT ROWID;
`
/** Since version 7. */
export const pastCopy = `
CREATE INDEX reprise_past_copy ON reprise_past (name, space, life, epoch, forgotten_at, crc);
`
export const columnNames = ['space', 'name', 'life', 'epoch', 'forgotten_at']
/** The columns of the index, in its order. */
export const copiedColumns = ['name', 'space', 'life', 'epoch', 'forgotten_at', 'crc']
const anyName = ''
const where = "WHERE space = ?1 AND name IN (?2, '')"
const inTable = `SELECT * FROM reprise_past INDEXED BY sqlite_autoindex_reprise_past_1 ${where}`
const inBoth = `${inTable} UNION ALL SELECT * FROM reprise_past INDEXED BY reprise_past_copy ${where}`
const tidiedAtOnce = 10_000

export function pastOf(connection: Connection, space: number, timeline: TimelineId): PastLife {
  const name = pastName(runtime.sha256, timeline)
  const rows = rowsOf(connection, space, name)
  if (rows.length === 0) return { name, life: 0, epoch: 0, forgottenAt: 0 }
  return soundOf(rows, name) ?? { name, life: soundOf(rows, anyName)?.life ?? 0, epoch: 0, forgottenAt: 0 }
}

export function listPasts(connection: Connection, space: number, after: string | null, limit: number): PastLife[] {
  return listRows(connection, space, after, limit).map(toPast)
}

/** The same for verify: `attempt` reports each damaged row. Returns the last name; null: none are left. */
export function checkPasts(
  connection: Connection,
  space: number,
  after: string | null,
  limit: number,
  attempt: (work: () => unknown) => void,
): string | null {
  const rows = listRows(connection, space, after, limit)
  for (const row of rows) attempt(() => toPast(row))
  const last = rows.length > 0 ? String(rows.at(-1)!.name) : null
  // A damaged name out of order would be listed forever.
  return last !== null && (after === null || last > after) ? last : null
}

function listRows(connection: Connection, space: number, after: string | null, limit: number): SqlRow[] {
  // A file of an older version that is only read does not have the table.
  if (!connection.get(`SELECT 1 FROM sqlite_schema WHERE name = 'reprise_past'`)) return []
  const sql = 'SELECT * FROM reprise_past WHERE space = ? AND (? IS NULL OR name > ?) ORDER BY name LIMIT ?'
  return connection.all(sql, space, after, after, limit)
}

/** Call inside a write transaction, like all functions below. A stored life is never lowered. */
export function recall(connection: Connection, space: number, past: PastLife): void {
  const known = soundOf(rowsOf(connection, space, past.name), past.name)
  const life = Math.max(past.life, known?.life ?? 0)
  const epoch = Math.max(past.epoch, known?.epoch ?? 0)
  const values = [space, past.name, life, epoch, past.forgottenAt]
  const sql = `REPLACE INTO reprise_past (${columnNames.join(', ')}, crc) VALUES (?, ?, ?, ?, ?, ?)`
  connection.run(sql, ...values, checksumOf(values))
}

/** An erased id leaves no digest: instead, every id without a past starts above its life. */
export function rememberForgotten(
  connection: Connection,
  space: number,
  timeline: TimelineId,
  { life, epoch }: Pick<PastLife, 'life' | 'epoch'>,
  how: true | 'erase' | 'moved',
  forgottenAt: number,
): void {
  if (how === 'moved') return
  const name = pastName(runtime.sha256, timeline)
  if (how === true) {
    recall(connection, space, { name, life, epoch, forgottenAt })
    return
  }
  // This also removes the row of an earlier life.
  connection.run('DELETE FROM reprise_past WHERE space = ? AND name = ?', space, name)
  recall(connection, space, { name: anyName, life, epoch: 0, forgottenAt })
}

/** Returns the number of removed rows. */
export function tidyPasts(connection: Connection, space: number, before: number): number {
  const where = `FROM reprise_past WHERE space = ? AND name <> '' AND forgotten_at < ?`
  const until = before - pastLives.keptMs
  const old = connection.all(`SELECT * ${where} LIMIT ${tidiedAtOnce}`, space, until).map(toPast)
  if (old.length === 0) return 0
  const life = old.reduce((highest, past) => Math.max(highest, past.life), 0)
  recall(connection, space, { name: anyName, life, epoch: 0, forgottenAt: until })
  for (const { name } of old) connection.run('DELETE FROM reprise_past WHERE space = ? AND name = ?', space, name)
  return old.length
}

/** The rows of this name and of '', from both copies. A file of an older version has one copy. */
function rowsOf(connection: Connection, space: number, name: string): SqlRow[] {
  return connection.all(connection.isOlder ? inTable : inBoth, space, name)
}

function soundOf(rows: readonly SqlRow[], name: string): PastLife | null {
  const mine = rows.filter((row) => row.name === name)
  const sound = mine.filter((row) => isIntact(row, columnNames)).map(toPast)
  if (mine.length > 0 && sound.length === 0) {
    throw damaged(`the life of a forgotten id (${name}) matches its checksum in neither of its places`, { name })
  }
  return sound.reduce<PastLife | null>((best, past) => (best && best.life >= past.life ? best : past), null)
}

function toPast(row: SqlRow): PastLife {
  checkRow(row, columnNames, `the life of a forgotten id (${row.name})`)
  const { name, life, epoch, forgotten_at: forgottenAt } = row
  return { name: name as string, life: life as number, epoch: epoch as number, forgottenAt: forgottenAt as number }
}
