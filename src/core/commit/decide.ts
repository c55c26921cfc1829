// The rules of a commit, in one place. Input: a view of the store and the commit. Output: the changes, or a refusal. Nothing
// is applied here, so a refusal has nothing to undo. Memory and SQLite apply these changes; PostgreSQL implements the same
// rules as a function in the server, and random histories compare it with this code.

import { assert } from '../assert.ts'
import { equalBytes, type TimelineId } from '../coordinate.ts'
import type { Attribute, Commit, Guard, Outcome, Take } from '../store/ports.ts'
import type { Writable } from '../writable.ts'
import { catalogAfter, checkDrop, checkPublish, checkTrim, type TimelineInCommit } from './catalog.ts'
import type { Changes } from './changes.ts'
import { branch, checkBase, checkForget, draft } from './lineage.ts'
import { checkConsume, checkNoMail, checkReceivers, checkRequests, cursorMoves, newMessages } from './mail.ts'
import { Refused } from './refused.ts'
import type { CommitView, HeadFacts } from './view.ts'

export interface Decision {
  readonly outcome: Outcome & { readonly ok: true }
  /** Null: no changes, since the commit was applied before. Mail without a guard has no timeline of its own. */
  readonly changes: Changes | Pick<Changes, 'sent' | 'settled'> | null
}

/** Throws Refused. @example decide(view, { operation, guard, run }) */
export function decide(view: CommitView, commit: Commit): Decision {
  const { guard, operation } = commit
  if (guard === null) return decideMail(view, commit.send ?? none, commit.settles ?? none)
  const { timeline } = guard
  const found = view.head(timeline)
  const epoch = guard.epoch + (commit.take || commit.branch ? 1 : 0)
  if (found && found.operation === operation) return repeated(epoch, found.seq)
  const isGone = !found || (guard.life !== undefined && guard.life < found.life)
  if (isGone && commit.forget) return repeated(epoch, guard.seq ?? 0)
  const made = found ? null : make(view, timeline, commit.take)
  const before = found ?? made!
  checkGuard(guard, before)
  if (commit.unlessMail) checkNoMail(view, timeline)
  if (commit.forget) {
    checkForget(view, timeline)
    const changes = forgotten(timeline, before, commit.forget)
    return { outcome: { ok: true, epoch, seq: before.seq, isDuplicate: false }, changes }
  }
  // One object that is changed step by step: every commit that is more than an append passes here.
  const head = copyFacts(before)
  if (commit.take) {
    checkTaker(view, timeline, head, commit.take)
    head.owner = commit.take.worker
  }
  if (made) checkBase(view, made)
  const archived = commit.branch ? branch(view, timeline, { found, taken: { ...head } }, commit.branch) : null
  if (archived) Object.assign(head, archived.goesOnFrom)
  const { run } = commit
  if (run) {
    assert(run.first === head.seq + 1 && run.count > 0, 'history has no gap')
    head.seq = run.first + run.count - 1
    head.digest = new Uint8Array(run.digest)
  }
  const isNew = made !== null || archived !== null
  const { dropped, trim } = hasCatalogPart(commit) ? checkCatalog(view, { timeline, head, isNew }, commit) : untouched
  if (commit.consume || commit.settles) checkIncoming(view, timeline, commit)
  const sent = commit.send ? newMessages(view, commit.send) : none
  const cursors = commit.cursors ? cursorMoves(view, timeline, commit.cursors) : none
  if (trim) Object.assign(head, { floor: trim.seq, floorDigest: new Uint8Array(trim.digest) })
  assert(head.floor <= head.seq, 'the floor lies at or below the head')
  assert(isNew || head.floor >= before.floor, 'the floor only rises')
  if (commit.release) head.owner = null
  head.epoch = epoch
  if (!commit.aside) head.operation = operation
  head.updatedAt = view.now
  return {
    outcome: { ok: true, epoch, seq: head.seq, isDuplicate: false },
    changes: {
      timeline,
      forget: false,
      made,
      archived,
      run: run ?? null,
      published: commit.publish ?? none,
      marked: commit.marks ?? none,
      dropped,
      trimmedTo: trim ? trim.seq : null,
      consumed: commit.consume ?? none,
      settled: commit.settles ?? none,
      sent,
      cursors,
      head,
      wakeup: commit.wakeup,
      queue: commit.queue,
      priority: commit.priority,
      status: commit.status,
      attributes: commit.attributes,
    },
  }
}

function checkIncoming(view: CommitView, timeline: TimelineId, { consume = none, settles = none }: Commit): void {
  checkConsume(view, timeline, consume)
  checkRequests(view, settles)
}

/** Mail without a guard: it has no timeline of its own. */
function decideMail(view: CommitView, send: NonNullable<Commit['send']>, settled: readonly number[]): Decision {
  checkReceivers(view, send)
  checkRequests(view, settled)
  const sent = newMessages(view, send)
  const isDuplicate = sent.length === 0
  const changes = isDuplicate && settled.length === 0 ? null : { sent, settled }
  return { outcome: { ok: true, epoch: 0, seq: 0, isDuplicate }, changes }
}

/** Attributes after a commit; a null value removes the attribute. */
export function mergeAttributes(
  before: Readonly<Record<string, Attribute>>,
  changes: Readonly<Record<string, Attribute | null>>,
): Readonly<Record<string, Attribute>> {
  if (isOnlyAdded(changes)) return { ...before, ...(changes as Readonly<Record<string, Attribute>>) }
  const merged = new Map(Object.entries(before))
  for (const [key, value] of Object.entries(changes)) {
    if (value === null) merged.delete(key)
    else if (value !== undefined) merged.set(key, value)
  }
  // fromEntries defines properties, so that a key named __proto__ is treated like any other.
  return Object.fromEntries(merged)
}

function isOnlyAdded(changes: Readonly<Record<string, Attribute | null>>): boolean {
  for (const key of Object.keys(changes)) if (changes[key] === null || changes[key] === undefined) return false
  return true
}

const none: readonly never[] = []
const untouched = { dropped: none, trim: undefined }

/** Copies only these fields: a head from a store may have more. */
function copyFacts(facts: HeadFacts): Writable<HeadFacts> {
  const { seq, life, epoch, digest, floor, floorDigest, base, owner, operation, updatedAt } = facts
  return { seq, life, epoch, digest, floor, floorDigest, base, owner, operation, updatedAt }
}

function repeated(epoch: number, seq: number): Decision {
  return { outcome: { ok: true, epoch, seq, isDuplicate: true }, changes: null }
}

function make(view: CommitView, timeline: TimelineId, take: Take | undefined): HeadFacts {
  if (!take?.create) throw new Refused('NOT_FOUND', `there is no timeline ${timeline}`)
  return draft(view, timeline, take.create)
}

function checkGuard({ timeline, life, epoch, seq, digest }: Guard, head: HeadFacts): void {
  if (life !== undefined && head.life !== life) {
    throw new Refused('FENCED', `${timeline} is in life ${head.life}, the commit was made for life ${life}`)
  }
  if (head.epoch !== epoch) {
    throw new Refused('FENCED', `${timeline} is at epoch ${head.epoch}, the commit was made under ${epoch}`)
  }
  if (seq !== undefined && head.seq !== seq) {
    throw new Refused('CONFLICT', `${timeline} is at sequence ${head.seq}, the commit expected ${seq}`)
  }
  if (digest !== undefined && !equalBytes(head.digest, digest)) {
    throw new Refused('CONFLICT', `${timeline} has another history up to ${head.seq} than the commit expected`)
  }
}

function checkTaker(view: CommitView, timeline: TimelineId, { owner }: HeadFacts, { worker, from }: Take): void {
  if (view.isRetired(worker)) throw new Refused('WORKER_RETIRED', `worker ${worker} was declared dead`)
  if (owner === null || owner === worker || from === 'anyone') return
  if (from === 'dead' && !view.isAlive(owner)) return
  throw new Refused('OWNED', `${timeline} is owned by ${owner}`)
}

function hasCatalogPart({ publish, drop, trim }: Commit): boolean {
  return publish !== undefined || drop !== undefined || trim !== undefined
}

function checkCatalog(
  view: CommitView,
  midway: TimelineInCommit,
  commit: Commit,
): Pick<Changes, 'dropped'> & { readonly trim: Commit['trim'] } {
  const { publish = none, marks = none, drop = none, run } = commit
  // A trim at or below the floor changes nothing.
  const trim = commit.trim && commit.trim.seq > midway.head.floor ? commit.trim : undefined
  checkPublish(view, midway, publish)
  if (drop.length === 0 && !trim) return { dropped: none, trim }
  const catalog = catalogAfter(view, midway, publish, marks)
  const going = checkDrop(midway, catalog, drop)
  if (trim) {
    const remaining = catalog.filter((checkpoint) => !going.includes(checkpoint))
    checkTrim(view, midway, remaining, trim, run)
  }
  return { dropped: going.map(({ id }) => id), trim }
}

function forgotten(timeline: TimelineId, head: HeadFacts, forget: Changes['forget']): Changes {
  return {
    timeline,
    forget,
    made: null,
    archived: null,
    run: null,
    published: none,
    marked: none,
    dropped: none,
    trimmedTo: null,
    consumed: none,
    settled: none,
    sent: none,
    cursors: none,
    head,
    wakeup: undefined,
    queue: undefined,
    priority: undefined,
    status: undefined,
    attributes: undefined,
  }
}
