// Named cursors into the feed: how far a consumer has read, and so what may not be trimmed yet.

import type { TimelineId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import { type Commit, type CursorRow, type FeedPosition, feedStart } from '../../core/ports.ts'
import type { Connection } from './connection.ts'
import type { SqlRow, SqlValue } from './driver.ts'
import { damaged } from './failure.ts'
import { Refused } from './refused.ts'
import { checkSeal, checkText, seal } from './seal.ts'
import type { Timeline, Timelines } from './timelines.ts'
import type { Writing } from './writing.ts'

const columnNames = ['space', 'name', 'tid', 'position', 'moved_at']

export function toPosition(position: number): FeedPosition {
  return String(position).padStart(16, '0')
}

export function fromPosition(position: FeedPosition): number {
  if (position === feedStart) return 0
  if (!/^\d{16}$/.test(position)) {
    throw new RepriseError('INVALID_ARGUMENT', 'this is not a position in the feed of this store', { position })
  }
  return Number(position)
}

export function moveCursors(writing: Writing, timeline: Timeline, moves: NonNullable<Commit['cursors']>): Timeline {
  const { connection, space, now } = writing
  let { cursors } = timeline.row
  for (const [name, position] of Object.entries(moves)) {
    if (position === undefined) continue
    checkText(name, 'the name of a cursor')
    const before = connection.get('SELECT * FROM reprise_cursor WHERE space = ? AND name = ?', space, name)
    if (before) checkSeal(before, columnNames, `cursor ${name}`)
    if (before && before.tid !== timeline.tid)
      throw new Refused('CONFLICT', `cursor ${name} belongs to another timeline`)
    if (position === null) {
      cursors -= connection.run('DELETE FROM reprise_cursor WHERE space = ? AND name = ?', space, name)
      continue
    }
    if (before && position < (before.position as string)) {
      throw new Refused('CONFLICT', `cursor ${name} is at ${before.position} and does not move back to ${position}`)
    }
    writeCursor(connection, [space, name, timeline.tid, position, now])
    if (!before) cursors += 1
  }
  return { ...timeline, row: { ...timeline.row, cursors } }
}

export function listCursors(connection: Connection, space: number, timelines: Timelines): CursorRow[] {
  return rowsOf(connection, space, timelines).map((row) => ({
    name: row.name as string,
    owner: (timelines.byTid(row.tid as number)?.name ?? '') as TimelineId,
    position: row.position as string,
    movedAt: row.moved_at as number,
  }))
}

/** A cursor that is before this position, if there is one. */
export function cursorBehind({ connection, space, timelines }: Writing, position: FeedPosition): string | null {
  const row = rowsOf(connection, space, timelines).find((cursor) => (cursor.position as string) < position)
  return row ? (row.name as string) : null
}

export function giveCursors(connection: Connection, from: Timeline, to: number): void {
  for (const row of connection.all('SELECT * FROM reprise_cursor WHERE tid = ?', from.tid)) {
    checkSeal(row, columnNames, `cursor ${row.name}`)
    writeCursor(connection, [row.space!, row.name!, to, row.position!, row.moved_at!])
  }
}

function writeCursor(connection: Connection, values: SqlValue[]): void {
  const sql = 'REPLACE INTO reprise_cursor (space, name, tid, position, moved_at, crc) VALUES (?, ?, ?, ?, ?, ?)'
  connection.run(sql, ...values, seal(values))
}

/** A cursor that vanished would let history be trimmed under its reader, so they are counted. */
function rowsOf(connection: Connection, space: number, timelines: Timelines): SqlRow[] {
  const rows = connection.all('SELECT * FROM reprise_cursor WHERE space = ? ORDER BY name', space)
  for (const row of rows) checkSeal(row, columnNames, `cursor ${row.name}`)
  for (const { tid } of connection.all('SELECT tid FROM reprise_timeline WHERE space = ? AND cursors > 0', space)) {
    const owner = timelines.byTid(tid as number)
    if (owner && owner.row.cursors !== rows.filter((row) => row.tid === tid).length) {
      throw damaged(`a cursor of ${owner.name} is missing`, { timeline: owner.name })
    }
  }
  return rows
}
