// Rows of the log that hold nothing any more (sweep.ts). They must not just vanish: a row that is not there is damage. At the
// start of the log they go, and where it starts is written down. Further on, the last of several in a row stands for all of
// them and says for how many (log-row.ts). Without that, one old entry that is kept would keep a row for each commit since.
//
// Rows are emptied in commits, and joined later, in tidy: `empty_from` in reprise_meta says from where on to look. It is a hint.

import { assert } from '../../../core/assert.ts'
import type { Connection } from '../file/connection.ts'
import type { SqlRow } from '../file/driver.ts'
import type { Writing } from '../writing/writing.ts'
import { isEmptyRow, joinedBefore, joinedRow } from './log-row.ts'

const rowsPerStep = 1000
/** So that the loss of one such row never takes more than what a salvage fills in (salvage/salvage-log.ts). */
const joinedMax = 100_000
/** Rows that are longer hold something; their bytes are not read. */
const emptyBytesMax = 32

/** Rows from this position on have been emptied. */
export function noteEmptied(connection: Connection, position: number): void {
  const sql = `INSERT INTO reprise_meta (key, value) VALUES ('empty_from', ?)
    ON CONFLICT DO UPDATE SET value = excluded.value WHERE excluded.value < value`
  connection.run(sql, position)
}

/** Where emptied rows were noted, if any were. */
export function emptiedFrom({ connection }: Writing): number | null {
  return (
    (connection.get(`SELECT value FROM reprise_meta WHERE key = 'empty_from'`)?.value as number | undefined) ?? null
  )
}

/** They have all been dealt with, unless some were noted meanwhile. */
export function forgetEmptied(writing: Writing, from: number): void {
  writing.connection.run(`DELETE FROM reprise_meta WHERE key = 'empty_from' AND value = ?`, from)
  writing.hasAside = true
}

/**
 * Empty rows at the start of the log go; where it starts now is written down, so that this is not taken for damage. The
 * last row stays, empty or not: no position may be used twice (log-end.ts).
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
  // Nothing below the start: a row that an older release placed there is evidence, and verify tells of it.
  connection.run('DELETE FROM reprise_log WHERE position >= ? AND position < ?', start, end)
  connection.run(`INSERT OR REPLACE INTO reprise_meta (key, value) VALUES ('log_start', ?)`, end)
  writing.hasAside = true
  return end - start
}

/** Joins empty rows that follow each other, among some rows from there on; where to go on, or null at the end. */
export function joinEmptyRows(writing: Writing, from: number): number | null {
  const { connection } = writing
  // The last row before this transaction's is the acknowledged one, and stays as it is.
  const end = writing.position - 1
  // What was joined before may reach up to here: it is gone on with.
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
