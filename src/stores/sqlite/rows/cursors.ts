// Named cursors into the feed: the position up to which a consumer has read, from which history must not be trimmed.

import type { Changes } from '../../../core/commit/changes.ts'
import type { TimelineId } from '../../../core/coordinate.ts'
import type { CursorRow, FeedPosition } from '../../../core/store/ports.ts'
import type { Connection } from '../file/connection.ts'
import type { SqlRow, SqlValue } from '../file/driver.ts'
import { damaged } from '../file/failure.ts'
import type { Writing } from '../writing/writing.ts'
import { checkRow, checksumOf } from './row-checksum.ts'
import { addTo, sumOf, takeFrom } from './row-counts.ts'
import type { Timeline, Timelines } from './timelines.ts'

export const columnNames = ['space', 'name', 'tid', 'position', 'moved_at']

export function moveCursors(writing: Writing, timeline: Timeline, moves: Changes['cursors']): Timeline {
  const { connection, space, now } = writing
  let { cursors } = timeline.row
  let sum = timeline.sums.cursors
  for (const { name, position } of moves) {
    const before = find(writing, name)
    if (before) sum = takeFrom(sum, before.crc as number)
    if (position === null) {
      cursors -= connection.run('DELETE FROM reprise_cursor WHERE space = ? AND name = ?', space, name)
      continue
    }
    sum = addTo(sum, writeCursor(connection, [space, name, timeline.tid, position, now]))
    if (!before) cursors += 1
  }
  const row = cursors === timeline.row.cursors ? timeline.row : { ...timeline.row, cursors }
  return { ...timeline, row, sums: { ...timeline.sums, cursors: sum } }
}

export function findCursor(
  writing: Writing,
  name: string,
): { readonly owner: TimelineId; readonly position: FeedPosition } | null {
  const row = find(writing, name)
  if (!row) return null
  return { owner: writing.timelines.required(row.tid as number).name, position: row.position as string }
}

function find({ connection, space }: Writing, name: string): SqlRow | undefined {
  const row = connection.get('SELECT * FROM reprise_cursor WHERE space = ? AND name = ?', space, name)
  if (!row) return undefined
  checkRow(row, columnNames, `cursor ${name}`)
  if (row.name !== name) throw damaged(`the list of cursors leads from ${name} to ${row.name}`)
  return row
}

export function listCursors(connection: Connection, space: number, timelines: Timelines): CursorRow[] {
  return rowsOf(connection, space, timelines).map((row) => ({
    name: row.name as string,
    owner: timelines.required(row.tid as number).name,
    position: row.position as string,
    movedAt: row.moved_at as number,
  }))
}

/** A cursor before this position, if there is one. */
export function cursorBehind({ connection, space, timelines }: Writing, position: FeedPosition): string | null {
  const row = rowsOf(connection, space, timelines).find((cursor) => (cursor.position as string) < position)
  return row ? (row.name as string) : null
}

/** Returns their sum of checksums. */
export function giveCursors(connection: Connection, from: Timeline, to: number): number {
  let sum = 0
  for (const row of connection.all('SELECT * FROM reprise_cursor WHERE tid = ?', from.tid)) {
    checkRow(row, columnNames, `cursor ${row.name}`)
    sum = addTo(sum, writeCursor(connection, [row.space!, row.name!, to, row.position!, row.moved_at!]))
  }
  return sum
}

function writeCursor(connection: Connection, values: SqlValue[]): number {
  const sql = 'REPLACE INTO reprise_cursor (space, name, tid, position, moved_at, crc) VALUES (?, ?, ?, ?, ?, ?)'
  const crc = checksumOf(values)
  connection.run(sql, ...values, crc)
  return crc
}

/** A lost cursor would permit trimming history that its reader still needs, so cursors are counted. */
function rowsOf(connection: Connection, space: number, timelines: Timelines): SqlRow[] {
  const rows = connection.all('SELECT * FROM reprise_cursor WHERE space = ? ORDER BY name', space)
  for (const row of rows) checkRow(row, columnNames, `cursor ${row.name}`)
  const byOwner = new Map<number, SqlRow[]>()
  // Uses an index of its own: it finds an owner whose cursors are all missing.
  const owners = 'SELECT tid FROM reprise_timeline WHERE space = ? AND cursors > 0'
  for (const { tid } of connection.all(owners, space)) byOwner.set(tid as number, [])
  for (const row of rows) {
    const mine = byOwner.get(row.tid as number)
    if (mine) mine.push(row)
    else byOwner.set(row.tid as number, [row])
  }
  for (const [tid, mine] of byOwner) {
    const owner = timelines.required(tid)
    if (owner.row.cursors !== mine.length || owner.sums.cursors !== sumOf(mine)) {
      throw damaged(`a cursor of ${owner.name} is missing, or differs from its last write`, { timeline: owner.name })
    }
  }
  return rows
}
