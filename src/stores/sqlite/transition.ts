// One commit: the rules of the port's Commit, in the order the port gives. Everything in it happens, or Refused is thrown
// and the caller takes back what was done (timelines.undo and, where a step writes rows at once, a savepoint).

import { assert } from '../../core/assert.ts'
import { equalBytes, type OperationId } from '../../core/coordinate.ts'
import type { Commit, Outcome, Run, Take } from '../../core/ports.ts'
import type { Writable } from '../../core/writable.ts'
import { mergeAttributes } from './attributes.ts'
import { drop, mark, publish, trim } from './catalog.ts'
import { moveCursors } from './cursors.ts'
import { copyDigest, type HeadState } from './head-state.ts'
import { branch, draftTimeline, forget, makeTimeline } from './lineage.ts'
import { consume, send } from './mail.ts'
import { Refused } from './refused.ts'
import { checkText } from './seal.ts'
import type { Timeline, TimelineRow } from './timelines.ts'
import type { Writing } from './writing.ts'

export function transition(writing: Writing, commit: Commit): Outcome & { readonly ok: true } {
  const { timelines, now } = writing
  const { guard } = commit
  if (guard === null) {
    const isNew = send(writing, commit.send ?? [])
    return { ok: true, epoch: 0, seq: 0, wasApplied: !isNew }
  }
  const known = timelines.find(guard.timeline)
  const found = known && !known.row.isStub ? known : null
  const epoch = guard.epoch + (commit.take || commit.branch ? 1 : 0)
  if (found && found.head.operation === commit.operation) {
    return { ok: true, epoch, seq: found.head.seq, wasApplied: true }
  }
  if (!found && commit.forget) return { ok: true, epoch, seq: guard.seq ?? 0, wasApplied: true }
  const create = commit.take?.create
  if (!found && !create) throw new Refused('NOT_FOUND', `there is no timeline ${guard.timeline}`)
  let timeline = found ?? draftTimeline(writing, guard.timeline, known, create!)
  checkGuard(timeline, guard)
  if (commit.forget) {
    forget(writing, timeline)
    return { ok: true, epoch, seq: timeline.head.seq, wasApplied: false }
  }
  const before = timeline.head
  if (commit.take) {
    checkTaker(writing, timeline, commit.take)
    timeline = { ...timeline, head: { ...timeline.head, owner: commit.take.worker } }
  }
  if (!found) timeline = makeTimeline(writing, timeline)
  if (commit.branch) timeline = branch(writing, timeline, before, commit.branch)
  if (commit.run) timeline = append(writing, timeline, commit.run, commit.operation)
  timeline = changeCatalog(writing, timeline, commit)
  if (commit.consume || commit.send) timeline = exchangeMail(writing, timeline, commit)
  if (commit.cursors) timeline = moveCursors(writing, timeline, commit.cursors)
  const head: Writable<HeadState> = { ...timeline.head }
  head.epoch = epoch
  if (commit.release) head.owner = null
  head.operation = commit.operation
  head.updatedAt = now
  timelines.put({ ...timeline, head, row: setFields(timeline.row, commit) })
  return { ok: true, epoch, seq: head.seq, wasApplied: false }
}

function checkGuard({ name, head }: Timeline, guard: NonNullable<Commit['guard']>): void {
  if (head.epoch !== guard.epoch) {
    throw new Refused('FENCED', `${name} is at epoch ${head.epoch}, the commit was made under ${guard.epoch}`)
  }
  if (guard.seq !== undefined && head.seq !== guard.seq) {
    throw new Refused('CONFLICT', `${name} is at sequence ${head.seq}, the commit expected ${guard.seq}`)
  }
  if (guard.digest !== undefined && !equalBytes(head.digest, guard.digest)) {
    throw new Refused('CONFLICT', `${name} has another history up to sequence ${head.seq} than the commit expected`)
  }
}

function checkTaker({ workers, now }: Writing, { name, head }: Timeline, take: Take): void {
  checkText(take.worker, 'the id of a worker')
  if (workers.isRetired(take.worker)) throw new Refused('WORKER_RETIRED', `worker ${take.worker} was declared dead`)
  if (head.owner === null || head.owner === take.worker || take.from === 'anyone') return
  if (take.from === 'dead' && !workers.isAlive(head.owner, now)) return
  throw new Refused('OWNED', `${name} is owned by ${head.owner}`)
}

function append(writing: Writing, timeline: Timeline, run: Run, operation: OperationId): Timeline {
  const { head, tid } = timeline
  assert(run.first === head.seq + 1, 'history has no gap')
  writing.frames.push({ tid, previous: head.position, before: head.digest, run, operation })
  const next: Writable<HeadState> = { ...head }
  next.seq = run.first + run.count - 1
  next.digest = copyDigest(run.digest)
  next.position = writing.position
  return { ...timeline, head: next }
}

function changeCatalog(writing: Writing, given: Timeline, commit: Commit): Timeline {
  let timeline = given
  if (commit.publish) timeline = publish(writing, timeline, commit.publish)
  if (commit.marks) timeline = mark(writing, timeline, commit.marks)
  if (commit.drop) timeline = drop(writing, timeline, commit.drop)
  if (commit.trim) timeline = trim(writing, timeline, commit.trim)
  return timeline
}

/** Mail may go to the timeline itself, and counts are kept in its row: put it down, and pick it up again. */
function exchangeMail(writing: Writing, timeline: Timeline, commit: Commit): Timeline {
  writing.timelines.put(timeline)
  if (commit.consume) consume(writing, timeline, commit.consume)
  if (commit.send) send(writing, commit.send)
  return writing.timelines.byTid(timeline.tid)!
}

/** The same row if nothing in it changes: an append then leaves it alone. */
function setFields(row: TimelineRow, commit: Commit): TimelineRow {
  const { wakeup, queue, priority, status, attributes } = commit
  const hasChange =
    wakeup !== undefined || queue !== undefined || priority !== undefined || status !== undefined || attributes
  if (!hasChange) return row
  checkText(queue, 'a queue')
  checkText(status, 'a status')
  const next: Writable<TimelineRow> = { ...row }
  if (wakeup !== undefined) next.wakeup = wakeup
  if (queue !== undefined) next.queue = queue
  if (priority !== undefined) next.priority = priority
  if (status !== undefined) next.status = status
  if (attributes) next.attributes = mergeAttributes(row.attributes, attributes)
  return next
}
