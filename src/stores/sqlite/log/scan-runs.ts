// Finds runs of a timeline around damage. The list of its runs runs backwards from the head, so one damaged row hides all runs
// below it up to the previous anchor. This file scans the rows of the log one by one instead: slow, and only for damaged parts.

import type { LegibleRun } from '../../../core/store/ports.ts'
import type { Connection } from '../file/connection.ts'
import { unlessDamaged } from '../file/failure.ts'
import type { Timeline } from '../rows/timelines.ts'
import { type PlacedRun, soundFrames } from './log-row.ts'

export const rowsAtOnce = 256
const bytesAtOnce = 4 * 1024 * 1024

/** Consecutive runs after `after`, until one is missing or damaged. */
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

/** Runs above `after`, despite gaps between them, up to the first whose digest is known. Their checksums match. */
export function legibleRuns(connection: Connection, { tid, head }: Timeline, after: number): LegibleRun[] {
  const found: LegibleRun[] = []
  let reached = after
  for (const { position, body } of rowsBetween(connection, anchorBelow(connection, tid, after), head.position)) {
    for (const frame of soundFrames(position, body)) {
      if (frame.tid !== tid || frame.first <= reached || frame.last > head.seq) continue
      const digest = frame.digest ?? (frame.last === head.seq ? head.digest : null)
      found.push({ first: frame.first, count: frame.last - frame.first + 1, bytes: frame.bytes, digest, isSound: true })
      if (digest) return found
      reached = frame.last
    }
  }
  return found
}

function anchorBelow(connection: Connection, tid: number, after: number): number {
  const sql = 'SELECT position FROM reprise_anchor WHERE tid = ? AND last <= ? ORDER BY last DESC LIMIT 1'
  return (connection.get(sql, tid, after)?.position as number | undefined) ?? 1
}

export function* rowsBetween(
  connection: Connection,
  from: number,
  to: number,
): Generator<{ position: number; body: unknown }> {
  for (let start = from; start <= to; start += rowsAtOnce) {
    const end = Math.min(to, start + rowsAtOnce - 1)
    for (let position = start; position <= end; position++) yield { position, body: bodyAt(connection, position) }
  }
}

/** Reads row by row: an unreadable row must not hide the others. */
export function bodyAt(connection: Connection, position: number): unknown {
  return unlessDamaged(
    () => connection.get('SELECT body FROM reprise_log WHERE position = ?', position)?.body ?? null,
    null,
  )
}
