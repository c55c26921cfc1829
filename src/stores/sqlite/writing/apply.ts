// Applies a decided commit to the file. The rules are in core/commit; nothing here can be refused.

import { assert } from '../../../core/assert.ts'
import type { Changes } from '../../../core/commit/changes.ts'
import { mergeAttributes } from '../../../core/commit/decide.ts'
import type { OperationId } from '../../../core/coordinate.ts'
import type { EntryRun } from '../../../core/store/ports.ts'
import type { Writable } from '../../../core/writable.ts'
import { drop, mark, publish, trim } from '../rows/catalog.ts'
import { moveCursors } from '../rows/cursors.ts'
import type { HeadState } from '../rows/head-state.ts'
import { consume, send } from '../rows/mail.ts'
import { settleRequests } from '../rows/requests.ts'
import type { Timeline, TimelineRow } from '../rows/timelines.ts'
import { archive, forget, makeTimeline } from './lineage.ts'
import type { Writing } from './writing.ts'

export function apply(writing: Writing, changes: Changes): void {
  const { timelines } = writing
  const found = timelines.find(changes.timeline)
  if (changes.forget) {
    forget(writing, found!, changes.forget)
    return
  }
  let timeline = changes.made ? makeTimeline(writing, changes.timeline, found, changes.made) : found
  assert(timeline, 'a timeline that a commit changes exists, or is created by it')
  if (changes.archived) timeline = archive(writing, timeline, changes.archived)
  const { position } = timeline.head
  if (changes.run) append(writing, timeline, changes.run, changes.head.operation!)
  // In one order everywhere: V8 reads heads of one shape faster.
  const { seq, life, epoch, digest, floor, floorDigest, base, owner, operation, updatedAt } = changes.head
  const at = changes.run ? writing.position : position
  const head: HeadState = {
    seq,
    life,
    epoch,
    digest,
    position: at,
    floor,
    floorDigest,
    base,
    owner,
    operation,
    updatedAt,
  }
  timeline = changeCatalog(writing, timeline, head, changes)
  if (changes.consumed.length > 0 || changes.sent.length > 0) timeline = exchangeMail(writing, timeline, changes)
  if (changes.settled.length > 0) settleRequests(writing, changes.settled)
  if (changes.cursors.length > 0) timeline = moveCursors(writing, timeline, changes.cursors)
  const { tid, name, row, sums } = timeline
  timelines.put({ tid, name, head, row: setFields(row, changes), sums })
}

function append(writing: Writing, { head, tid }: Timeline, run: EntryRun, operation: OperationId): void {
  assert(run.first === head.seq + 1, 'history has no gap')
  writing.frames.push({ tid, previous: head.position, before: head.digest, run, operation })
}

function changeCatalog(writing: Writing, given: Timeline, head: HeadState, changes: Changes): Timeline {
  const { published, marked, dropped, trimmedTo } = changes
  let timeline = given
  if (published.length > 0) timeline = publish(writing, timeline, published)
  if (marked.length > 0) timeline = mark(writing, timeline, marked)
  if (dropped.length > 0) timeline = drop(writing, timeline, dropped)
  if (trimmedTo !== null) {
    const { floor, floorDigest } = given.head
    trim(writing, { ...timeline, head: { ...head, floor, floorDigest } }, trimmedTo, head.floorDigest)
  }
  return timeline
}

/** Mail may be sent to the timeline itself, which counts it in its row: write the row first, and read it again afterwards. */
function exchangeMail(writing: Writing, timeline: Timeline, { consumed, sent }: Changes): Timeline {
  writing.timelines.put(timeline)
  consume(writing, timeline, consumed)
  send(writing, sent)
  return writing.timelines.byTid(timeline.tid)!
}

/** Returns the same row if nothing in it changes: an append then does not write it. */
function setFields(row: TimelineRow, { wakeup, queue, priority, status, attributes }: Changes): TimelineRow {
  const hasChange =
    wakeup !== undefined || queue !== undefined || priority !== undefined || status !== undefined || attributes
  if (!hasChange) return row
  const next: Writable<TimelineRow> = { ...row }
  if (wakeup !== undefined) next.wakeup = wakeup
  if (queue !== undefined) next.queue = queue
  if (priority !== undefined) next.priority = priority
  if (status !== undefined) next.status = status
  if (attributes) next.attributes = mergeAttributes(row.attributes, attributes)
  return next
}
