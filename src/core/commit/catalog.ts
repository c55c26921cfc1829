// Rules for checkpoints and trimming: which checkpoints may be published or dropped, how far history may be trimmed.

import type { ManifestId, TimelineId } from '../coordinate.ts'
import type { Commit, FeedPosition, ManifestMark, NewManifest } from '../store/ports.ts'
import { forkNeeding } from './lineage.ts'
import { Refused } from './refused.ts'
import type { CheckpointFacts, CommitView, HeadFacts } from './view.ts'

/** A timeline in the middle of a commit, with the changes of the earlier parts applied. */
export interface TimelineInCommit {
  readonly timeline: TimelineId
  readonly head: HeadFacts
  /** Created or rolled back in this commit: runs and checkpoints that the store has under this id are not its own. */
  readonly isNew: boolean
}

export function checkPublish(
  view: CommitView,
  { timeline, head }: TimelineInCommit,
  records: readonly NewManifest[],
): void {
  const published = new Set<ManifestId>()
  const isThere = (id: ManifestId) => published.has(id) || view.hasCheckpoint(id)
  for (const { id, seq, baseId, chunksSince } of records) {
    if (seq > head.seq)
      throw new Refused('OUT_OF_RANGE', `checkpoint ${id} is at ${seq}, the head of ${timeline} at ${head.seq}`)
    if (isThere(id)) throw new Refused('EXISTS', `there is a checkpoint ${id} already`)
    if (baseId !== null && !isThere(baseId)) {
      throw new Refused('BASE_GONE', `checkpoint ${id} builds on ${baseId}, which is not in the catalog`)
    }
    if (chunksSince !== undefined && chunksSince < view.sweepMark()) {
      throw new Refused(
        'SWEPT',
        `chunks of checkpoint ${id} may be swept: put at ${chunksSince}, mark at ${view.sweepMark()}`,
      )
    }
    published.add(id)
  }
}

/** The catalog after publishing and marking: the input of drop and trim. */
export function catalogAfter(
  view: CommitView,
  { timeline, isNew }: TimelineInCommit,
  published: readonly NewManifest[],
  marks: readonly ManifestMark[],
): readonly CheckpointFacts[] {
  const catalog: CheckpointFacts[] = [...(isNew ? [] : view.catalog(timeline)), ...published]
  for (const mark of marks) {
    const given = Object.fromEntries(Object.entries(mark).filter(([, value]) => value !== undefined))
    const index = catalog.findIndex(({ id }) => id === mark.id)
    if (index >= 0) catalog[index] = { ...catalog[index]!, ...given }
  }
  return catalog
}

/** The checkpoints to drop; unknown ids are skipped. */
export function checkDrop(
  { timeline, head }: TimelineInCommit,
  catalog: readonly CheckpointFacts[],
  ids: readonly ManifestId[],
): CheckpointFacts[] {
  const going = catalog.filter(({ id }) => ids.includes(id))
  if (going.length === 0) return going
  const pinned = going.find((checkpoint) => checkpoint.isPinned)
  if (pinned) throw new Refused('PINNED', `checkpoint ${pinned.id} of ${timeline} is pinned`)
  const remaining = catalog.filter((checkpoint) => !going.includes(checkpoint))
  if (head.floor > 0 && !remaining.some((checkpoint) => canRestore(checkpoint, head.floor))) {
    throw new Refused(
      'PINNED',
      `history of ${timeline} is trimmed to ${head.floor}, no verified checkpoint would remain`,
    )
  }
  return going
}

/** `run` is the run that this commit appends. */
export function checkTrim(
  view: CommitView,
  midway: TimelineInCommit,
  catalog: readonly CheckpointFacts[],
  { seq, restsOn }: NonNullable<Commit['trim']>,
  run: Commit['run'],
): void {
  const { timeline, head, isNew } = midway
  const position = run && head.seq === seq ? view.nextPosition : isNew ? null : view.runEndingAt(timeline, seq)
  if (position === null && head.base?.seq !== seq) {
    throw new Refused('OUT_OF_RANGE', `sequence ${seq} of ${timeline} is not the end of a run`)
  }
  for (const id of restsOn) {
    const checkpoint = catalog.find((candidate) => candidate.id === id)
    if (!checkpoint || !canRestore(checkpoint, seq)) {
      throw new Refused('PINNED', `checkpoint ${id} is not a verified, valid one at or above ${seq}`)
    }
  }
  const fork = isNew ? null : forkNeeding(view, timeline, seq)
  if (fork) throw new Refused('PINNED', `the fork ${fork.timeline} needs history of ${timeline} above ${fork.floor}`)
  checkCursors(view, timeline, seq, position)
}

/** The last run to be trimmed is the newest in the feed: a cursor that has passed it has passed the others. */
function checkCursors(view: CommitView, timeline: TimelineId, seq: number, position: FeedPosition | null): void {
  const cursor = position === null ? null : view.cursorBefore(position)
  if (cursor !== null) throw new Refused('PINNED', `cursor ${cursor} has not passed sequence ${seq} of ${timeline}`)
}

function canRestore({ seq, verifiedAt, invalid }: CheckpointFacts, floor: number): boolean {
  return seq >= floor && verifiedAt !== null && invalid === null
}
