// The end of the log, and the rule that everything a process keeps in memory rests on:
//
//   1. A row is added at the end of the log and nowhere else. The statement that adds it looks where the end is, so a
//      process that was idle, paused or slow cannot place a row where nobody looks, whatever it believes.
//   2. Positions only grow. The last row is never given back (tidy.ts), so no position is used twice, and two states of
//      the file that end at the same position are the same to whoever keeps heads and rows of timelines.
//   3. Whatever changes what another process may keep adds a row in the same transaction. What adds none
//      (Writing.hasAside: heartbeats, chunks, read mail, empty rows of the log, where the log starts) is kept by nobody:
//      it is read from the file in each transaction. The version of the tables is part of the statement of rule 1.

import type { Connection } from '../file/connection.ts'
import { damaged } from '../file/failure.ts'
import { readVersion, schemaVersion } from '../schema.ts'

const version = `(SELECT value FROM reprise_meta WHERE key = 'schema_version')`
const start = `(SELECT value FROM reprise_meta WHERE key = 'log_start')`
const last = '(SELECT max(position) FROM reprise_log)'

/**
 * Adds a row, (position, body), if that is the next position and the tables are the ones we know. If not, what it would
 * insert is no position at all, and SQLite refuses it (isNotTheEnd). An INSERT … SELECT … WHERE would do the same, but
 * copies the row into a table of its own first.
 */
export const insertAtEnd = `INSERT INTO reprise_log (position, body)
  VALUES (iif(?1 = 1 + coalesce(${last}, 0) AND ${version} = ${schemaVersion}, ?1, 'not the end of the log'), ?2)`

/** Where the log ends, as this transaction sees it; 0: it has no row yet. */
export function lastPosition(connection: Connection): number {
  const found = connection.get(`SELECT ${last} AS last, ${start} AS start`)
  const reached = (found?.last as number | null | undefined) ?? 0
  const began = Number(found?.start ?? 1)
  // The last row is never given back. Going on from below would use positions for a second time.
  if (reached < began && began > 1) {
    throw damaged(`the log starts at ${began}, and its last row is ${reached}`, { start: began, last: reached })
  }
  return reached
}

/** Where the log starts: rows below were given back by tidy. */
export function firstPosition(connection: Connection): number {
  return Number(connection.get(`SELECT ${start} AS value`)?.value ?? 1)
}

/** Throws INCOMPATIBLE_VERSION if a newer release has changed the tables since this process opened the file. */
export function checkVersion(connection: Connection): void {
  const found = connection.get(`SELECT ${version} AS version`)?.version
  if (found !== schemaVersion) readVersion(connection)
}

/** Throws STORE_DAMAGED if the log ends before a row that was acknowledged: the end of it is missing. */
export function checkReaches(connection: Connection, acknowledged: number): void {
  const reached = lastPosition(connection)
  if (reached >= acknowledged) return
  throw damaged(`the log ends at ${reached}, and ${acknowledged} was acknowledged`, { reached, acknowledged })
}
