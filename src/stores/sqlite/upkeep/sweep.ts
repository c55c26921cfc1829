// Frees the space of trimmed or forgotten history. A trim only moves the floor and writes a note; the sweep follows, a bounded
// number of rows at a time, first in the same transaction and later in tidy(). A row stays when its runs are removed (empty, or
// with other runs), so that a missing row is always damage; empty-rows.ts joins empty rows.

import { noteEmptied } from '../log/empty-rows.ts'
import { ownStart } from '../log/log.ts'
import { compactRow, type Frame, isEmptyRow, type PlacedRun, readFrames } from '../log/log-row.ts'
import type { Timeline } from '../rows/timelines.ts'
import type { Writing } from '../writing/writing.ts'

interface Note {
  readonly tid: number
  /** The sequence up to which it is swept. */
  readonly done: number
  /** The sequence up to which to sweep; the run that ends there is at `position`. */
  readonly last: number
  readonly position: number
}

/** Notes that the timeline's own runs up to `last` are dead. */
export function sweepLater(writing: Writing, timeline: Timeline, last: number, position: number): void {
  const sql = `INSERT INTO reprise_sweep (tid, done, last, position) VALUES (?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET last = excluded.last, position = excluded.position`
  writing.connection.run(sql, timeline.tid, ownStart(timeline), last, position)
  writing.hasOtherChanges = true
}

/**
 * Sweeps up to about `rowsMax` rows, of this namespace or of no timeline, and returns the number handled. `isErasing`: runs
 * without a timeline are removed also from rows that hold many live runs.
 */
export function sweep(writing: Writing, rowsMax: number, isErasing = false): number {
  const sql = `SELECT s.* FROM reprise_sweep s LEFT JOIN reprise_timeline t ON t.tid = s.tid
    WHERE t.tid IS NULL OR t.space = ?`
  let rows = 0
  for (const note of writing.connection.all(sql, writing.space)) {
    if (rows >= rowsMax) break
    rows += sweepSome(writing, note as unknown as Note, rowsMax - rows, isErasing)
  }
  return rows
}

function sweepSome(writing: Writing, note: Note, rowsMax: number, isErasing: boolean): number {
  const { connection } = writing
  let { done } = note
  let rows = 0
  let canContinue = true
  while (canContinue && done < note.last && rows < rowsMax) {
    const segment = segmentOf(writing, note, done)
    if (segment.length === 0) done = note.last
    for (const { position, frame } of segment) {
      canContinue = compact(writing, position, isErasing)
      if (!canContinue) break
      done = frame.last
      rows += 1
    }
  }
  if (done === note.done) return 0
  connection.run('DELETE FROM reprise_anchor WHERE tid = ? AND last <= ?', note.tid, done)
  if (done >= note.last) connection.run('DELETE FROM reprise_sweep WHERE tid = ?', note.tid)
  else connection.run('UPDATE reprise_sweep SET done = ? WHERE tid = ?', done, note.tid)
  writing.hasOtherChanges = true
  return rows
}

/** Runs above `done` up to the next anchor or the end of the note, in order. Damage ends the list: verify reports it. */
function segmentOf(writing: Writing, note: Note, done: number): PlacedRun[] {
  const sql = `SELECT last, position FROM reprise_anchor WHERE tid = ? AND last > ? AND last <= ? ORDER BY last LIMIT 1`
  const anchor = writing.connection.get(sql, note.tid, done, note.last) as
    | { last: number; position: number }
    | undefined
  let { last, position } = anchor ?? note
  const found: PlacedRun[] = []
  while (last > done && position > 0) {
    const frame = frameOf(writing, position, note.tid, last)
    if (!frame) break
    found.push({ position, frame })
    last = frame.first - 1
    position = frame.previous
  }
  return found.reverse()
}

function frameOf(writing: Writing, position: number, tid: number, last: number): Frame | null {
  try {
    const body = writing.log.body(position)
    if (!body) return null
    for (const frame of readFrames(position, body)) {
      if (frame.tid === tid && frame.last === last) return frame
    }
  } catch {
    return null
  }
  return null
}

/**
 * Rewrites a row when no more than half of it is alive. The last row before this transaction's is the acknowledged one, and
 * must not change until there is a newer one. False: retry later.
 */
function compact(writing: Writing, position: number, isErasing: boolean): boolean {
  if (position >= writing.position - 1) return false
  const body = writing.log.body(position)
  if (!body || isEmptyRow(body)) return true
  const isLive = livenessIn(writing)
  let liveBytes = 0
  for (const frame of readFrames(position, body)) if (isLive(frame)) liveBytes += frame.bytes.length
  if (liveBytes * 2 > body.length && !isErasing) return true
  const rest = compactRow(position, body, isLive)
  writing.connection.run('UPDATE reprise_log SET body = ? WHERE position = ?', rest, position)
  if (isEmptyRow(rest)) noteEmptied(writing.connection, position)
  return true
}

function livenessIn(writing: Writing): (frame: Frame) => boolean {
  const sql = 'SELECT space FROM reprise_timeline WHERE tid = ?'
  return ({ tid, last }) => {
    const timeline = writing.timelines.byTid(tid)
    if (timeline) return last > timeline.head.floor
    // A timeline of another namespace is left to a sweep of that namespace.
    return writing.connection.get(sql, tid) !== undefined
  }
}
