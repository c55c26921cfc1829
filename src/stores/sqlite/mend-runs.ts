// Runs of a timeline around damage. The list of its runs leads from the head backwards, so one damaged row hides all below
// it up to the anchor before. Here rows of the log are gone through one by one instead: slow, and only for what is damaged.

import { RepriseError } from '../../core/errors.ts'
import type { RunChange } from '../../core/ports.ts'
import type { Connection } from './connection.ts'
import { isDamage } from './failure.ts'
import type { PlacedRun } from './log.ts'
import { compactedRow, type Frame, readFrames, soundFrames } from './log-row.ts'
import type { Timeline } from './timelines.ts'
import type { Writing } from './writing.ts'

const rowsAtOnce = 256
const bytesAtOnce = 4 * 1024 * 1024

/** Runs from `after` on, one after another, until one is missing or damaged. */
export function runsFrom(connection: Connection, { tid, head }: Timeline, after: number): PlacedRun[] {
  const found: PlacedRun[] = []
  let reached = after
  let bytes = 0
  for (const { position, body } of rowsBetween(connection, anchorBelow(connection, tid, after), head.position)) {
    for (const frame of soundFrames(position, body)) {
      if (frame.tid !== tid || frame.last <= reached) continue
      if (frame.first > reached + 1 || bytes > bytesAtOnce) return found
      found.push({ position, frame })
      reached = frame.last
      bytes += frame.bytes.length
    }
  }
  return found
}

/** Puts the run where the one after it, or the head, says that it lies. False: not just now, ask again after another write. */
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
  return true
}

/** Where the list of this timeline says that its run up to `last` lies. */
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

/** Where the run before lies: as a row says, else the damaged row nearest to it, else the same row. 0: there is none. */
function placeBefore({ connection }: Writing, timeline: Timeline, first: number, position: number): number {
  const { tid, head } = timeline
  if (first - 1 <= Math.max(head.floor, head.base?.seq ?? 0)) return 0
  let damaged = position
  for (let end = position; end > 0; ) {
    const start = Math.max(0, end - rowsAtOnce)
    for (const row of [...rowsBetween(connection, start + 1, end - 1)].reverse()) {
      const frames = soundFrames(row.position, row.body)
      if (frames.some((frame) => frame.tid === tid && frame.last === first - 1)) return row.position
      // Further below there are only runs from before the one that is looked for.
      if (frames.some((frame) => frame.tid === tid && frame.last < first - 1)) return damaged
      if (damaged === position && !isWhole(row.position, row.body)) damaged = row.position
    }
    end = start
  }
  return damaged
}

function anchorBelow(connection: Connection, tid: number, after: number): number {
  const sql = 'SELECT position FROM reprise_anchor WHERE tid = ? AND last <= ? ORDER BY last DESC LIMIT 1'
  return (connection.get(sql, tid, after)?.position as number | undefined) ?? 1
}

function* rowsBetween(
  connection: Connection,
  from: number,
  to: number,
): Generator<{ position: number; body: unknown }> {
  for (let start = from; start <= to; start += rowsAtOnce) {
    const end = Math.min(to, start + rowsAtOnce - 1)
    for (let position = start; position <= end; position++) yield { position, body: bodyAt(connection, position) }
  }
}

/** Row by row: one that cannot be read must not hide the others. */
function bodyAt(connection: Connection, position: number): unknown {
  try {
    return connection.get('SELECT body FROM reprise_log WHERE position = ?', position)?.body ?? null
  } catch (error) {
    if (isDamage(error)) return null
    throw error
  }
}

function isWhole(position: number, body: unknown): boolean {
  try {
    for (const _ of readFrames(position, body as Uint8Array)) void _
    return true
  } catch (error) {
    if (error instanceof RepriseError) return false
    throw error
  }
}
