// Rows of the log that are empty now (sweep.ts). They cannot simply be deleted: a missing row is damage. At the start
// of the log they are removed, and the new start is recorded. Further on, the last of several consecutive empty rows
// represents all of them and stores their count (log-row.ts). Otherwise, one old kept entry would keep a row for each later
// commit.
//
// Commits empty rows, and tidy joins them later: `empty_from` in reprise_meta is the position to start from. It is a hint.

import { assert } from '../../../core/assert.ts'
import type { Connection } from '../file/connection.ts'
import type { SqlRow } from '../file/driver.ts'
import type { Writing } from '../writing/writing.ts'
import { isEmptyRow, joinedBefore, joinedRow } from './log-row.ts'

const rowsPerStep = 1000
/** Bounds the loss of one such row to the number of rows that a salvage can fill in (salvage/salvage-log.ts). */
const joinedMax = 100_000
/** Longer rows hold something; their bytes are not read. */
const emptyBytesMax = 32

/** Records that rows from this position on have been emptied. */
export function noteEmptied(connection: Connection, position: number): void {
  const sql = `INSERT INTO reprise_meta (key, value) VALUES ('empty_from', ?)
    ON CONFLICT DO UPDATE SET value = excluded.value WHERE excluded.value < value`
  connection.run(sql, position)
}

/** The recorded position of emptied rows, if any. */
export function emptiedFrom({ connection }: Writing): number | null {
  return (
    (connection.get(`SELECT value FROM reprise_meta WHERE key = 'empty_from'`)?.value as number | undefined) ?? null
  )
}

/** All emptied rows are handled, unless more were recorded meanwhile. */
export function forgetEmptied(writing: Writing, from: number): void {
  writing.connection.run(`DELETE FROM reprise_meta WHERE key = 'empty_from' AND value = ?`, from)
  writing.hasAside = true
}

/**
 * Removes empty rows at the start of the log and records the new start, so that their absence is not damage. The last row
 * stays, empty or not: no position may be reused (log-end.ts).
 */
export function dropEmptyRows(writing: Writing): number {
  const { connection } = writing
  const start = writing.log.firstPosition()
  const last = writing.position - 1
  let end = start
  for (const { position, body } of rowsFrom(connection, start, last)) {
    const at = position as number
    if (!isEmptyRow(body) || at - joinedBefore(at, body) > end) break
    end = at + 1
  }
  if (end === start) return 0
  assert(end <= last, 'the last row of the log stays')
  // Nothing below the start is deleted: a row that an older release placed there is evidence, and verify reports it.
  connection.run('DELETE FROM reprise_log WHERE position >= ? AND position < ?', start, end)
  connection.run(`INSERT OR REPLACE INTO reprise_meta (key, value) VALUES ('log_start', ?)`, end)
  writing.hasAside = true
  return end - start
}

/** Joins consecutive empty rows, among a limited number of rows; returns where to continue, or null at the end. */
export function joinEmptyRows(writing: Writing, from: number): number | null {
  const { connection } = writing
  // The last row before this transaction's is the acknowledged one, and must not change.
  const end = writing.position - 1
  // A joined row may end right here: it is extended.
  const before = connection.get('SELECT max(position) AS last FROM reprise_log WHERE position < ?', from)?.last
  const rows = rowsFrom(connection, Math.max(Number(before ?? 1), writing.log.firstPosition()), end)
  let first: number | null = null
  let last = 0
  const join = () => {
    if (first !== null && last > first && !isJoined(connection, first, last)) {
      connection.run('DELETE FROM reprise_log WHERE position >= ? AND position < ?', first, last)
      connection.run('UPDATE reprise_log SET body = ? WHERE position = ?', joinedRow(last, last - first), last)
      writing.hasAside = true
    }
    first = null
  }
  for (const { position, body } of rows) {
    const at = position as number
    const begin = isEmptyRow(body) ? at - joinedBefore(at, body) : null
    // A hole between two rows is damage, and must stay visible.
    if (begin === null || (first !== null && (begin !== last + 1 || at - first > joinedMax))) join()
    if (begin === null) continue
    first ??= begin
    last = at
  }
  const isEnd = rows.length < rowsPerStep
  join()
  return isEnd ? null : (rows.at(-1)!.position as number)
}

function isJoined(connection: Connection, first: number, last: number): boolean {
  const body = connection.get('SELECT body FROM reprise_log WHERE position = ?', last)?.body
  return last - joinedBefore(last, body) === first
}

function rowsFrom(connection: Connection, start: number, end: number): SqlRow[] {
  const sql = `SELECT position, iif(length(body) <= ${emptyBytesMax}, body, NULL) AS body FROM reprise_log
    WHERE position >= ? AND position < ? ORDER BY position LIMIT ${rowsPerStep}`
  return connection.all(sql, start, end)
}
