// Creates timelines, forks them from a parent, rolls them back and forgets them.

import { assert } from '../../../core/assert.ts'
import type { Changes } from '../../../core/commit/changes.ts'
import type { HeadFacts } from '../../../core/commit/view.ts'
import type { TimelineId } from '../../../core/coordinate.ts'
import { ownStart } from '../log/log.ts'
import { giveCursors } from '../rows/cursors.ts'
import { emptyRow, moveMail } from '../rows/mail.ts'
import { rememberForgotten } from '../rows/past.ts'
import { noSums } from '../rows/row-counts.ts'
import type { Timeline } from '../rows/timelines.ts'
import { sweepLater } from '../upkeep/sweep.ts'
import type { Writing } from './writing.ts'

/** A stub with mail becomes the timeline. */
export function makeTimeline(
  { timelines }: Writing,
  name: TimelineId,
  stub: Timeline | null,
  facts: HeadFacts,
): Timeline {
  const head = { ...facts, position: 0 }
  const parent = facts.base ? timelines.find(facts.base.timeline)!.tid : null
  const row = { ...emptyRow, parent, mail: stub?.row.mail ?? 0, createdAt: facts.updatedAt }
  if (!stub) return timelines.insert(name, head, row)
  const timeline = { tid: stub.tid, name, head, row, sums: stub.sums }
  timelines.put(timeline)
  if (parent !== null) timelines.countFork(parent, 1)
  return timeline
}

/** The existing history becomes the archive, under its number; the name gets a new number. */
export function archive(
  { timelines, connection }: Writing,
  timeline: Timeline,
  { as, head, goesOnFrom }: NonNullable<Changes['archived']>,
): Timeline {
  const { tid, name, row } = timeline
  const stub = timelines.find(as)
  if (stub) timelines.remove(stub)
  const forks = timelines.forksOf(timeline)
  const archived = { ...emptyRow, parent: row.parent, status: 'archived', checkpoints: row.checkpoints }
  timelines.rename(
    {
      ...timeline,
      head: { ...head, position: timeline.head.position },
      row: { ...archived, mail: stub?.row.mail ?? 0, createdAt: row.createdAt },
    },
    as,
  )
  for (const fork of forks) {
    assert(fork.head.base, 'a fork has a base')
    timelines.put({ ...fork, head: { ...fork.head, base: { ...fork.head.base, timeline: as } } })
  }
  const goingOn = timelines.insert(name, { ...goesOnFrom, position: 0 }, { ...row, parent: tid, checkpoints: 0 })
  const sums = {
    ...noSums,
    mail: moveMail(connection, tid, goingOn.tid),
    cursors: giveCursors(connection, timeline, goingOn.tid),
  }
  const archiveNow = timelines.required(tid)
  const mail = stub ? moveMail(connection, stub.tid, tid) : 0
  timelines.put({ ...archiveNow, sums: { ...archiveNow.sums, mail, cursors: 0 } })
  return { ...goingOn, sums }
}

export function forget(writing: Writing, timeline: Timeline, how: true | 'erase' | 'moved'): void {
  const { timelines, connection, space, now } = writing
  const { tid, head, name } = timeline
  rememberForgotten(connection, space, name, head, how, now)
  for (const fork of timelines.forksOf(timeline)) timelines.put({ ...fork, row: { ...fork.row, parent: null } })
  for (const table of ['manifest', 'inbox', 'cursor']) {
    connection.run(`DELETE FROM reprise_${table} WHERE tid = ?`, tid)
  }
  if (head.seq > ownStart(timeline) && head.position > 0) sweepLater(writing, timeline, head.seq, head.position)
  timelines.remove(timeline)
  writing.hasOtherChanges = true
}
