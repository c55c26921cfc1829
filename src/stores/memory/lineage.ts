// How timelines come to be, leave a parent, are rolled back and are forgotten.

import type { TimelineId } from '../../core/coordinate.ts'
import type { Commit } from '../../core/ports.ts'
import { type Change, Refused } from './change.ts'
import { removeMail } from './mail.ts'
import { Log } from './shared.ts'
import type { Space, TimelineRow } from './world.ts'

/** The row as it is before anybody took it; it is not in the world yet. */
export function makeTimeline(change: Change, commit: Commit, now: number): TimelineRow {
  const id = commit.guard!.timeline
  const create = commit.take?.create
  if (!create) throw new Refused('NOT_FOUND', `there is no timeline ${id}`)
  const base = create.base ? { ...create.base, digest: new Uint8Array(create.base.digest) } : null
  const parent = base ? change.space.timelines.get(base.timeline) : undefined
  const floor =
    create.floor ?? (parent ? { seq: parent.floor, digest: parent.floorDigest } : { seq: 0, digest: create.digest })
  return {
    serial: change.nextSerial(),
    id,
    seq: base ? base.seq : floor.seq,
    epoch: 0,
    digest: new Uint8Array(create.digest),
    owner: null,
    floor: floor.seq,
    floorDigest: new Uint8Array(floor.digest),
    base,
    queue: null,
    priority: 0,
    status: '',
    wakeup: null,
    attributes: {},
    operation: null,
    createdAt: now,
    updatedAt: now,
    runs: new Log(),
    catalog: [],
  }
}

export function checkBase(space: Space, fork: TimelineRow): void {
  if (!fork.base) return
  const parent = space.timelines.get(fork.base.timeline)
  if (!parent) throw new Refused('NOT_FOUND', `there is no timeline ${fork.base.timeline} to fork`)
  checkReach(parent, fork.base.seq, fork.floor)
}

/** A fork at `seq` that may still read from above `floor` must find all of that in its parent. */
function checkReach(parent: TimelineRow, seq: number, floor: number): void {
  if (seq > parent.seq) {
    throw new Refused('OUT_OF_RANGE', `${parent.id} ends at sequence ${parent.seq}, before ${seq}`)
  }
  if (floor > seq) throw new Refused('OUT_OF_RANGE', `the floor ${floor} lies above the base ${seq}`)
  if (floor < seq && floor < parent.floor) {
    throw new Refused('OUT_OF_RANGE', `history of ${parent.id} up to ${parent.floor} is gone, ${floor} was asked for`)
  }
}

/** Does the fork still read history of its base? */
function needsBase(fork: TimelineRow, parent: TimelineId): boolean {
  return fork.base !== null && fork.base.timeline === parent && fork.floor < fork.base.seq
}

export function forkNeeding(space: Space, parent: TimelineId, belowSeq: number): TimelineRow | undefined {
  for (const fork of space.timelines.values()) if (needsBase(fork, parent) && fork.floor < belowSeq) return fork
  return undefined
}

export function branch(
  change: Change,
  row: TimelineRow,
  { archive, seq, digest, floor }: NonNullable<Commit['branch']>,
  now: number,
): TimelineRow {
  const { space } = change
  const old = space.timelines.get(row.id)
  if (!old) throw new Refused('NOT_FOUND', `there is no timeline ${row.id} to roll back`)
  if (space.timelines.has(archive)) {
    throw new Refused('EXISTS', `there is a timeline ${archive} already`)
  }
  checkReach(row, seq, floor.seq)
  change.put(space.timelines, archive, {
    ...old,
    id: archive,
    status: 'archived',
    owner: null,
    wakeup: null,
    queue: null,
    priority: 0,
    attributes: {},
    updatedAt: now,
  })
  change.put(space.serials, old.serial, archive)
  for (const { id } of old.catalog) change.put(space.manifests, id, archive)
  for (const fork of [...space.timelines.values()]) {
    if (fork.base?.timeline === row.id) {
      change.put(space.timelines, fork.id, { ...fork, base: { ...fork.base, timeline: archive } })
    }
  }
  return {
    ...row,
    serial: change.nextSerial(),
    base: { timeline: archive, seq, digest: new Uint8Array(digest) },
    seq,
    digest: new Uint8Array(digest),
    floor: floor.seq,
    floorDigest: new Uint8Array(floor.digest),
    runs: new Log(),
    catalog: [],
  }
}

export function forget(change: Change, row: TimelineRow): void {
  const { space } = change
  const fork = forkNeeding(space, row.id, Number.POSITIVE_INFINITY)
  if (fork) throw new Refused('PINNED', `the fork ${fork.id} needs ${row.id}`)
  const pinned = row.catalog.find((record) => record.isPinned)
  if (pinned) throw new Refused('PINNED', `checkpoint ${pinned.id} of ${row.id} is pinned`)
  for (const { id } of row.catalog) change.remove(space.manifests, id)
  for (const cursor of [...space.cursors.values()]) {
    if (cursor.owner === row.id) change.remove(space.cursors, cursor.name)
  }
  removeMail(change, row.id)
  change.remove(space.serials, row.serial)
  change.remove(space.timelines, row.id)
}
