// The end of the log, and the rules on which all caches of a process rest:
//
//   1. A row is added at the end of the log and nowhere else. The statement that adds it reads the end, so a process that was
//      idle, paused or slow cannot place a row elsewhere, whatever it has cached.
//   2. Positions only grow. The last row is never removed (upkeep.ts), so no position is reused, and two states of the file that
//      end at the same position are equal for a cache of heads and rows of timelines.
//   3. A change to anything that another process may cache adds a row in the same transaction. Changes without a row
//      (Writing.hasAside: heartbeats, chunks, read mail, empty rows of the log, the start of the log) are cached by no process:
//      each transaction reads them from the file. The version of the tables is part of the statement of rule 1.

import type { Connection } from '../file/connection.ts'
import { damaged } from '../file/failure.ts'
import { readVersion, schemaVersion } from '../schema.ts'

const version = `(SELECT value FROM reprise_meta WHERE key = 'schema_version')`
const start = `(SELECT value FROM reprise_meta WHERE key = 'log_start')`
const last = '(SELECT max(position) FROM reprise_log)'

/**
 * Adds a row, (position, body), if that is the next position and the tables have the known version. If not, it inserts an
 * invalid position, which SQLite refuses (isNotTheEnd). An INSERT … SELECT … WHERE would do the same, but copies the row into
 * a temporary table first.
 */
export const insertAtEnd = `INSERT INTO reprise_log (position, body)
  VALUES (iif(?1 = 1 + coalesce(${last}, 0) AND ${version} = ${schemaVersion}, ?1, 'not the end of the log'), ?2)`

/** The last position of the log in this transaction; 0: the log has no row yet. */
export function lastPosition(connection: Connection): number {
  const found = connection.get(`SELECT ${last} AS last, ${start} AS start`)
  const reached = (found?.last as number | null | undefined) ?? 0
  const began = Number(found?.start ?? 1)
  // The last row is never removed. Continuing from below would reuse positions.
  if (reached < began && began > 1) {
    throw damaged(`the log starts at ${began}, but its last row is ${reached}`, { start: began, last: reached })
  }
  return reached
}

/** The first position of the log: tidy removed the rows below. */
export function firstPosition(connection: Connection): number {
  return Number(connection.get(`SELECT ${start} AS value`)?.value ?? 1)
}

/** Throws INCOMPATIBLE_VERSION if a newer release has changed the tables since this process opened the file. */
export function checkVersion(connection: Connection): void {
  const found = connection.get(`SELECT ${version} AS version`)?.version
  if (found !== schemaVersion) readVersion(connection)
}

/** Throws STORE_DAMAGED if the log ends before an acknowledged row: its end is missing. */
export function checkReaches(connection: Connection, acknowledged: number): void {
  const reached = lastPosition(connection)
  if (reached >= acknowledged) return
  throw damaged(`the log ends at ${reached}, but ${acknowledged} was acknowledged`, { reached, acknowledged })
}
