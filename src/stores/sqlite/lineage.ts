// How timelines come to be, leave a parent, are rolled back and are forgotten.

import { assert } from '../../core/assert.ts'
import type { TimelineId } from '../../core/coordinate.ts'
import type { Commit, Take } from '../../core/ports.ts'
import { forgetCatalog } from './catalog.ts'
import { giveCursors } from './cursors.ts'
import { copyDigest, type HeadState } from './head-state.ts'
import { ownStart } from './log.ts'
import { emptyRow, moveMail } from './mail.ts'
import { Refused } from './refused.ts'
import { checkText } from './seal.ts'
import { sweepLater } from './sweep.ts'
import type { Timeline } from './timelines.ts'
import { noSums } from './witness.ts'
import type { Writing } from './writing.ts'

/** The timeline as it would be before anybody took it; it is not in the file yet. A stub with mail becomes it. */
export function draftTimeline(
  { timelines, now }: Writing,
  name: TimelineId,
  stub: Timeline | null,
  create: NonNullable<Take['create']>,
): Timeline {
  const base = create.base ? { ...create.base, digest: copyDigest(create.base.digest) } : null
  const parent = base ? existing(timelines.find(base.timeline)) : null
  const floor =
    create.floor ??
    (parent ? { seq: parent.head.floor, digest: parent.head.floorDigest } : { seq: 0, digest: create.digest })
  const head: HeadState = {
    seq: base ? base.seq : floor.seq,
    epoch: 0,
    digest: copyDigest(create.digest),
    position: 0,
    floor: floor.seq,
    floorDigest: copyDigest(floor.digest),
    base,
    owner: null,
    operation: null,
    updatedAt: now,
  }
  const row = { ...emptyRow, parent: parent?.tid ?? null, mail: stub?.row.mail ?? 0, createdAt: now }
  return { tid: stub?.tid ?? 0, name, head, row, sums: stub?.sums ?? noSums }
}

/** Makes a draft real, if what it builds on is there. */
export function makeTimeline({ timelines }: Writing, draft: Timeline): Timeline {
  const { name, head, row } = draft
  checkText(name, 'the id of a timeline')
  if (head.base) {
    const parent = row.parent === null ? null : timelines.byTid(row.parent)
    if (!parent) throw new Refused('NOT_FOUND', `there is no timeline ${head.base.timeline} to fork`)
    checkReach(parent, head.base.seq, head.floor)
  }
  if (draft.tid === 0) return timelines.insert(name, head, row)
  timelines.put(draft)
  if (row.parent !== null) timelines.countFork(row.parent, 1)
  return draft
}

/** A fork at `seq` that may still read from above `floor` must find all of that in its parent. */
function checkReach({ name, head }: Timeline, seq: number, floor: number): void {
  if (seq > head.seq) throw new Refused('OUT_OF_RANGE', `${name} ends at sequence ${head.seq}, before ${seq}`)
  if (floor > seq) throw new Refused('OUT_OF_RANGE', `the floor ${floor} lies above the base ${seq}`)
  if (floor < seq && floor < head.floor) {
    throw new Refused('OUT_OF_RANGE', `history of ${name} up to ${head.floor} is gone, ${floor} was asked for`)
  }
}

/** What is here goes on as the archive, under its number; the name gets a new one. `before` is it as it was found. */
export function branch(
  writing: Writing,
  timeline: Timeline,
  before: HeadState,
  { archive, seq, digest, floor }: NonNullable<Commit['branch']>,
): Timeline {
  checkText(archive, 'the id of an archive')
  const { timelines, connection, now } = writing
  const { tid, name, row } = timeline
  const found = timelines.find(archive)
  if (existing(found) || archive === name) throw new Refused('EXISTS', `there is a timeline ${archive} already`)
  checkReach(timeline, seq, floor.seq)
  if (found) timelines.remove(found)
  const forks = timelines.forksOf(timeline)
  const archived = { ...emptyRow, parent: row.parent, status: 'archived', checkpoints: row.checkpoints }
  timelines.rename(
    {
      ...timeline,
      head: { ...before, owner: null, updatedAt: now },
      row: { ...archived, mail: found?.row.mail ?? 0, createdAt: row.createdAt },
    },
    archive,
  )
  for (const fork of forks) {
    assert(fork.head.base, 'a fork has a base')
    timelines.put({ ...fork, head: { ...fork.head, base: { ...fork.head.base, timeline: archive } } })
  }
  const base = { timeline: archive, seq, digest: copyDigest(digest) }
  const head = { ...timeline.head, base, seq, digest: base.digest, position: 0 }
  const goingOn = timelines.insert(
    name,
    { ...head, floor: floor.seq, floorDigest: copyDigest(floor.digest) },
    { ...row, parent: tid, checkpoints: 0 },
  )
  const sums = {
    ...noSums,
    mail: moveMail(connection, tid, goingOn.tid),
    cursors: giveCursors(connection, timeline, goingOn.tid),
  }
  const archiveNow = timelines.required(tid)
  const mail = found ? moveMail(connection, found.tid, tid) : 0
  timelines.put({ ...archiveNow, sums: { ...archiveNow.sums, mail, cursors: 0 } })
  return { ...goingOn, sums }
}

export function forget(writing: Writing, timeline: Timeline): void {
  const { timelines, connection } = writing
  const { tid, name, head } = timeline
  const forks = timelines.forksOf(timeline)
  const needing = forks.find((fork) => fork.head.floor < (fork.head.base?.seq ?? 0))
  if (needing) throw new Refused('PINNED', `the fork ${needing.name} needs ${name}`)
  forgetCatalog(writing, timeline)
  for (const fork of forks) timelines.put({ ...fork, row: { ...fork.row, parent: null } })
  connection.run('DELETE FROM reprise_inbox WHERE tid = ?', tid)
  connection.run('DELETE FROM reprise_cursor WHERE tid = ?', tid)
  if (head.seq > ownStart(timeline) && head.position > 0) sweepLater(writing, timeline, head.seq, head.position)
  timelines.remove(timeline)
  writing.hasOtherChanges = true
}

function existing(timeline: Timeline | null): Timeline | null {
  return timeline && !timeline.row.isStub ? timeline : null
}
