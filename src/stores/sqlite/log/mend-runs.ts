// Puts a damaged or lost run back at its position in the list of its timeline.

import { RepriseError } from '../../../core/errors.ts'
import type { RunChange } from '../../../core/store/ports.ts'
import type { Timeline } from '../rows/timelines.ts'
import type { Writing } from '../writing/writing.ts'
import { compactedRow, type Frame, isWhole, soundFrames } from './log-row.ts'
import { bodyAt, rowsAtOnce, rowsBetween } from './scan-runs.ts'

/**
 * Puts the run at the position that the next run, or the head, refers to. False: not possible yet; retry after another write.
 */
export function mendRun(writing: Writing, timeline: Timeline, change: RunChange, settledBelow: number): boolean {
  const { connection } = writing
  const { tid } = timeline
  const { first, digest, bytes } = change
  const last = first + change.count! - 1
  const position = placeOf(writing, timeline, last)
  if (position >= settledBelow) return false
  const previous = placeBefore(writing, timeline, first, position)
  const body = bodyAt(connection, position)
  const others = soundFrames(position, body).filter(
    (frame) => frame.tid !== tid || frame.last < first || frame.first > last,
  )
  const mended: Frame = { tid, first, last, previous, digest, operation: null, bytes }
  const isAfter = (frame: Frame) => frame.tid === tid && frame.first > last
  const frames = [...others.filter((frame) => !isAfter(frame)), mended, ...others.filter(isAfter)]
  const put =
    'INSERT INTO reprise_log (position, body) VALUES (?, ?) ON CONFLICT (position) DO UPDATE SET body = excluded.body'
  connection.run(put, position, compactedRow(position, frames))
  if (change.isLost) dropDamaged(writing, previous, position)
  return true
}

/** Rewrites the rows between the previous run and this one without their damaged frames. Sound frames stay. */
function dropDamaged({ connection }: Writing, after: number, before: number): void {
  for (const row of rowsBetween(connection, after + 1, before - 1)) {
    if (!(row.body instanceof Uint8Array) || isWhole(row.position, row.body)) continue
    const kept = compactedRow(row.position, soundFrames(row.position, row.body))
    connection.run('UPDATE reprise_log SET body = ? WHERE position = ?', kept, row.position)
  }
}

/** The position of the run up to `last`, according to the list of this timeline. */
function placeOf({ connection, log }: Writing, timeline: Timeline, last: number): number {
  const { tid, head } = timeline
  const sql = 'SELECT last, position FROM reprise_anchor WHERE tid = ? AND last >= ? ORDER BY last LIMIT 1'
  const anchor = connection.get(sql, tid, last) as { last: number; position: number } | undefined
  let at = anchor ?? { last: head.seq, position: head.position }
  while (at.last > last) {
    const frame = log.frame(timeline, at.position, at.last)
    at = { last: frame.first - 1, position: frame.previous }
  }
  if (at.last !== last || at.position <= 0) {
    const what = `the log of ${timeline.name} has no place for a run that ends at ${last}`
    throw new RepriseError('HISTORY_DAMAGED', what, { timeline: timeline.name, seq: last })
  }
  return at.position
}

/** The position of the previous run: from a row, else the nearest damaged row, else the same row. 0: there is none. */
function placeBefore({ connection }: Writing, timeline: Timeline, first: number, position: number): number {
  const { tid, head } = timeline
  if (first - 1 <= Math.max(head.floor, head.base?.seq ?? 0)) return 0
  let damaged = position
  for (let end = position; end > 0; ) {
    const start = Math.max(0, end - rowsAtOnce)
    for (const row of [...rowsBetween(connection, start + 1, end - 1)].reverse()) {
      const frames = soundFrames(row.position, row.body)
      if (frames.some((frame) => frame.tid === tid && frame.last === first - 1)) return row.position
      // Further below there are only runs older than the missing one.
      if (frames.some((frame) => frame.tid === tid && frame.last < first - 1)) return damaged
      if (damaged === position && !isWhole(row.position, row.body)) damaged = row.position
    }
    end = start
  }
  return damaged
}
