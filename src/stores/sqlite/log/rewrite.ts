// Replaces the bytes of stored runs (Upkeep.rewrite). A row of the log is rewritten with its frames in place; frames whose bytes
// change store their digest, which can no longer be computed from them.

import { equalBytes, type TimelineId } from '../../../core/coordinate.ts'
import { RepriseError } from '../../../core/errors.ts'
import type { Change, Rewritten, RunChange } from '../../../core/store/ports.ts'
import type { Writing } from '../writing/writing.ts'
import { compactedRow, type Frame, isEmptyRow, readFrames } from './log-row.ts'
import { mendRun } from './mend-runs.ts'

export function rewriteRuns(writing: Writing, change: Change, after: string | null, limit: number): Rewritten {
  const { connection } = writing
  const sql = 'SELECT position, body FROM reprise_log WHERE position > ? ORDER BY position LIMIT ?'
  const rows = connection.all(sql, Number(after ?? 0), Math.max(1, limit))
  const settledBelow = firstUnsettled(writing)
  const count = { seen: 0, changed: 0, left: 0 }
  let reached = 0
  for (const row of rows) {
    reached = row.position as number
    const body = row.body as Uint8Array
    if (isEmptyRow(body)) continue
    const frames = framesIn(reached, body)
    const changes = frames.map((frame) => (isOurs(writing, frame) ? changed(writing, reached, frame, change) : null))
    count.seen += frames.length
    const wanted = changes.filter((frame) => frame !== null).length
    if (wanted === 0) continue
    if (reached >= settledBelow) count.left += wanted
    else {
      const next = compactedRow(
        reached,
        frames.map((frame, i) => changes[i] ?? frame),
      )
      connection.run('UPDATE reprise_log SET body = ? WHERE position = ?', next, reached)
      count.changed += wanted
    }
  }
  // A row is added after these: rows that could not be rewritten are then settled, and are no longer the last acknowledged row.
  if (count.changed + count.left > 0) writing.hasOtherChanges = true
  return { ...count, next: rows.length >= Math.max(1, limit) ? String(reached) : null }
}

/** The same for runs of one timeline (Store.replace). */
export function replaceRuns(
  writing: Writing,
  name: TimelineId,
  changes: readonly RunChange[],
): Pick<Rewritten, 'changed' | 'left'> {
  const { connection, log, timelines } = writing
  const timeline = timelines.find(name)
  const settledBelow = firstUnsettled(writing)
  const count = { changed: 0, left: 0 }
  // Process the last one first: each run has the position of the previous one.
  const damaged = changes.filter((change) => change.count !== undefined).sort((a, b) => b.first - a.first)
  for (const change of timeline ? damaged : []) {
    count[mendRun(writing, timeline!, change, settledBelow) ? 'changed' : 'left'] += 1
  }
  const named = changes.filter((change) => change.count === undefined)
  for (const { first, digest, bytes } of timeline ? named : []) {
    const placed = log.segment(timeline!, first - 1).find(({ frame }) => frame.first === first)
    if (!placed || !equalBytes(log.digestOf(timeline!, placed), digest)) continue
    const { position } = placed
    if (position >= settledBelow) {
      count.left += 1
      continue
    }
    const isIt = (frame: Frame) => frame.tid === timeline!.tid && frame.first === first
    const frames = [...readFrames(position, log.body(position)!)]
    const next = compactedRow(
      position,
      frames.map((frame) => (isIt(frame) ? { ...frame, bytes, digest } : frame)),
    )
    connection.run('UPDATE reprise_log SET body = ? WHERE position = ?', next, position)
    count.changed += 1
  }
  if (count.changed + count.left > 0) writing.hasOtherChanges = true
  return count
}

/** The acknowledged row must not change until there is a newer one, nor must rows whose heads were not written. */
function firstUnsettled(writing: Writing): number {
  let first = writing.position - 1
  for (const runs of writing.unsettled.pending().values()) {
    for (const { position } of runs) first = Math.min(first, position)
  }
  return first
}

/** Damaged rows stay unchanged, for diagnosis. */
function framesIn(position: number, body: Uint8Array): Frame[] {
  try {
    return [...readFrames(position, body)]
  } catch (error) {
    if (error instanceof RepriseError) return []
    throw error
  }
}

/** True: the timeline belongs to this namespace, or no longer exists. */
function isOurs({ timelines, connection }: Writing, { tid }: Frame): boolean {
  if (timelines.byTid(tid)) return true
  return connection.get('SELECT 1 FROM reprise_timeline WHERE tid = ?', tid) === undefined
}

const unknownDigest = new Uint8Array(32)

function changed(writing: Writing, position: number, frame: Frame, change: Change): Frame | null {
  const bytes = change(frame.bytes)
  if (!bytes) return null
  const timeline = writing.timelines.byTid(frame.tid)
  try {
    const digest = timeline ? writing.log.digestOf(timeline, { position, frame }) : (frame.digest ?? unknownDigest)
    return { ...frame, bytes, digest }
  } catch (error) {
    // The history is trimmed or damaged, so the digest is unknown. A sweep frees its space.
    if (error instanceof RepriseError) return null
    throw error
  }
}
