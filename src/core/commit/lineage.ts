// Rules for creating, forking, rolling back and forgetting timelines.

import type { TimelineId } from '../coordinate.ts'
import type { Commit, Take } from '../store/ports.ts'
import { Refused } from './refused.ts'
import type { CommitView, ForkFacts, HeadFacts } from './view.ts'

/** The head of a new timeline before its first owner takes it. */
export function draft(view: CommitView, timeline: TimelineId, create: NonNullable<Take['create']>): HeadFacts {
  const past = create.copyOf ? { ...create.copyOf, life: create.copyOf.life - 1 } : view.past(timeline)
  if (create.life !== undefined && create.life !== past.life + 1) {
    throw new Refused('FENCED', `${timeline} would be life ${past.life + 1}, the commit expected ${create.life}`)
  }
  const base = create.base ? { ...create.base, digest: new Uint8Array(create.base.digest) } : null
  const parent = base && view.head(base.timeline)
  const floor =
    create.floor ?? (parent ? { seq: parent.floor, digest: parent.floorDigest } : { seq: 0, digest: create.digest })
  return {
    seq: base ? base.seq : floor.seq,
    life: past.life + 1,
    epoch: past.epoch,
    digest: new Uint8Array(create.digest),
    floor: floor.seq,
    floorDigest: new Uint8Array(floor.digest),
    base,
    owner: null,
    operation: null,
    updatedAt: view.now,
  }
}

/** The base of a new fork must exist. */
export function checkBase(view: CommitView, { base, floor }: HeadFacts): void {
  if (!base) return
  const parent = view.head(base.timeline)
  if (!parent) throw new Refused('NOT_FOUND', `there is no timeline ${base.timeline} to fork`)
  checkReach(base.timeline, parent, base.seq, floor)
}

/** The two heads after a rollback. `found` is the head before this commit. */
export function branch(
  view: CommitView,
  timeline: TimelineId,
  { found, taken }: { readonly found: HeadFacts | null; readonly taken: HeadFacts },
  { archive, seq, digest, floor }: NonNullable<Commit['branch']>,
): { readonly as: TimelineId; readonly head: HeadFacts; readonly goesOnFrom: HeadFacts } {
  if (!found) throw new Refused('NOT_FOUND', `there is no timeline ${timeline} to roll back`)
  if (view.head(archive)) throw new Refused('EXISTS', `there is a timeline ${archive} already`)
  checkReach(timeline, taken, seq, floor.seq)
  const base = { timeline: archive, seq, digest: new Uint8Array(digest) }
  return {
    as: archive,
    head: { ...found, owner: null, updatedAt: view.now },
    goesOnFrom: {
      ...taken,
      base,
      seq,
      digest: base.digest,
      floor: floor.seq,
      floorDigest: new Uint8Array(floor.digest),
    },
  }
}

export function checkForget(view: CommitView, timeline: TimelineId): void {
  const pinned = view.catalog(timeline).find((checkpoint) => checkpoint.isPinned)
  if (pinned) throw new Refused('PINNED', `checkpoint ${pinned.id} of ${timeline} is pinned`)
  const fork = forkNeeding(view, timeline, Number.POSITIVE_INFINITY)
  if (fork) throw new Refused('PINNED', `the fork ${fork.timeline} needs ${timeline}`)
}

/** A fork that still reads history of this timeline below that sequence; null: none. */
export function forkNeeding(view: CommitView, timeline: TimelineId, belowSeq: number): ForkFacts | null {
  for (const fork of view.forks(timeline)) if (fork.floor < fork.baseSeq && fork.floor < belowSeq) return fork
  return null
}

/** A fork at `seq` that may still read history above `floor` must find all of it in its parent. */
function checkReach(parent: TimelineId, head: HeadFacts, seq: number, floor: number): void {
  if (seq > head.seq) throw new Refused('OUT_OF_RANGE', `${parent} ends at sequence ${head.seq}, before ${seq}`)
  if (floor > seq) throw new Refused('OUT_OF_RANGE', `the floor ${floor} lies above the base ${seq}`)
  if (floor < seq && floor < head.floor) {
    throw new Refused(
      'OUT_OF_RANGE',
      `history of ${parent} up to ${head.floor} was trimmed, and ${floor} was requested`,
    )
  }
}
