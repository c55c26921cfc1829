// One commit, as a step of the world: every rule of the port's Commit is here and in the two files beside it, in the order
// the port gives. Either everything in it happens, or a refusal comes back and the world is as before.

import { equalBytes } from '../../core/coordinate.ts'
import type { Attribute, Commit, Outcome, Run, Take } from '../../core/ports.ts'
import { drop, mark, publish, trim } from './catalog.ts'
import { Change, Refused } from './change.ts'
import { branch, checkBase, forget, makeTimeline } from './lineage.ts'
import { consume, moveCursors, send } from './mail.ts'
import { copyRun, isAlive, toHead } from './view.ts'
import type { Space, TimelineRow } from './world.ts'

export interface Step {
  readonly outcome: Outcome
  /** Takes the step back, for a rider that fails after it. */
  undo(): void
}

export function transition(space: Space, commit: Commit, now: number): Step {
  const change = new Change(space)
  try {
    return { outcome: decide(change, commit, now), undo: () => change.undo() }
  } catch (error) {
    change.undo()
    if (!(error instanceof Refused)) throw error
    const row = commit.guard && space.timelines.get(commit.guard.timeline)
    const head = row ? toHead(space, row, now) : null
    return { outcome: { ok: false, code: error.code, reason: error.reason, head }, undo: () => {} }
  }
}

function decide(change: Change, commit: Commit, now: number): Outcome {
  const { space } = change
  const { guard } = commit
  if (guard === null) {
    const isNew = send(change, commit.send ?? [], now)
    return { ok: true, epoch: 0, seq: 0, wasApplied: !isNew }
  }
  const found = space.timelines.get(guard.timeline)
  const epoch = guard.epoch + (commit.take || commit.branch ? 1 : 0)
  if (found && found.operation === commit.operation) return { ok: true, epoch, seq: found.seq, wasApplied: true }
  if (!found && commit.forget) return { ok: true, epoch, seq: guard.seq ?? 0, wasApplied: true }

  let row = found ?? makeTimeline(change, commit, now)
  if (row.epoch !== guard.epoch) {
    throw new Refused('FENCED', `${guard.timeline} is at epoch ${row.epoch}, the commit was made under ${guard.epoch}`)
  }
  if (guard.seq !== undefined && row.seq !== guard.seq) {
    throw new Refused('CONFLICT', `${guard.timeline} is at sequence ${row.seq}, the commit expected ${guard.seq}`)
  }
  if (guard.digest !== undefined && !equalBytes(row.digest, guard.digest)) {
    throw new Refused('CONFLICT', `${guard.timeline} has another history up to ${row.seq} than the commit expected`)
  }
  if (commit.forget) {
    forget(change, row)
    return { ok: true, epoch, seq: row.seq, wasApplied: false }
  }
  if (commit.take) {
    checkTaker(space, row, commit.take, now)
    row = { ...row, owner: commit.take.worker }
  }
  if (!found) checkBase(space, row)
  if (commit.branch) row = branch(change, row, commit.branch, now)
  row = { ...row, epoch }
  if (commit.run) row = append(change, row, commit.run)
  if (commit.publish) row = publish(change, row, commit.publish)
  if (commit.marks) row = mark(row, commit.marks)
  if (commit.drop) row = drop(change, row, commit.drop)
  if (commit.trim) row = trim(space, row, commit.trim)
  if (commit.consume) consume(change, row.id, commit.consume, now)
  if (commit.send) send(change, commit.send, now)
  if (commit.cursors) moveCursors(change, row.id, commit.cursors, now)
  row = setFields(row, commit)
  change.put(space.serials, row.serial, row.id)
  change.put(space.timelines, row.id, { ...row, operation: commit.operation, updatedAt: now })
  return { ok: true, epoch, seq: row.seq, wasApplied: false }
}

function checkTaker(space: Space, row: TimelineRow, take: Take, now: number): void {
  const taker = space.workers.get(take.worker)
  if (taker && taker.retiredAt !== null) {
    throw new Refused('WORKER_RETIRED', `worker ${take.worker} was declared dead`)
  }
  if (row.owner === null || row.owner === take.worker || take.from === 'anyone') return
  if (take.from === 'dead' && !isAlive(space.workers.get(row.owner), now)) return
  throw new Refused('OWNED', `${row.id} is owned by ${row.owner}`)
}

function append(change: Change, row: TimelineRow, given: Run): TimelineRow {
  const run = change.appendToFeed(row.serial, copyRun(given))
  return { ...row, seq: run.first + run.count - 1, digest: run.digest, runs: row.runs.append(run) }
}

function setFields(row: TimelineRow, commit: Commit): TimelineRow {
  return {
    ...row,
    owner: commit.release ? null : row.owner,
    wakeup: commit.wakeup === undefined ? row.wakeup : commit.wakeup,
    queue: commit.queue === undefined ? row.queue : commit.queue,
    priority: commit.priority ?? row.priority,
    status: commit.status ?? row.status,
    attributes: commit.attributes ? merge(row.attributes, commit.attributes) : row.attributes,
  }
}

function merge(
  before: Readonly<Record<string, Attribute>>,
  changes: NonNullable<Commit['attributes']>,
): Readonly<Record<string, Attribute>> {
  const merged = new Map(Object.entries(before))
  for (const [key, value] of Object.entries(changes)) {
    if (value === null) merged.delete(key)
    else if (value !== undefined) merged.set(key, value)
  }
  // fromEntries defines properties, so that a key named __proto__ is a key like any other.
  return Object.fromEntries(merged)
}
