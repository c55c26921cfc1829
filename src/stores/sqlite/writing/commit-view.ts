// The namespace as the rules of a commit see it (core/commit), inside the transaction that applies their decision.

import type { CheckpointFacts, CommitView, ForkFacts, HeadFacts } from '../../../core/commit/view.ts'
import type { ManifestId, MessageId, TimelineId, WorkerId } from '../../../core/coordinate.ts'
import type { FeedPosition, PastLife } from '../../../core/store/ports.ts'
import { toPosition } from '../../numbered-position.ts'
import { catalogOf, isInCatalog } from '../rows/catalog.ts'
import { cursorBehind, findCursor } from '../rows/cursors.ts'
import { findMessage } from '../rows/mail.ts'
import { pastOf } from '../rows/past.ts'
import { hasRequest } from '../rows/requests.ts'
import { readSweepMark } from '../rows/sweep-mark.ts'
import type { Timeline } from '../rows/timelines.ts'
import type { Writing } from './writing.ts'

export class SqliteCommitView implements CommitView {
  readonly #writing: Writing

  constructor(writing: Writing) {
    this.#writing = writing
  }

  get now(): number {
    return this.#writing.now
  }

  get nextPosition(): FeedPosition {
    return toPosition(this.#writing.position)
  }

  head(timeline: TimelineId): HeadFacts | null {
    return this.#existing(timeline)?.head ?? null
  }

  past(timeline: TimelineId): Pick<PastLife, 'life' | 'epoch'> {
    return pastOf(this.#writing.connection, this.#writing.space, timeline)
  }

  forks(timeline: TimelineId): ForkFacts[] {
    const { timelines } = this.#writing
    return timelines.forksOf(this.#existing(timeline)!).map(({ name, head }) => {
      return { timeline: name, floor: head.floor, baseSeq: head.base?.seq ?? 0 }
    })
  }

  catalog(timeline: TimelineId): readonly CheckpointFacts[] {
    return catalogOf(this.#writing.connection, this.#existing(timeline)!)
  }

  hasCheckpoint(id: ManifestId): boolean {
    return isInCatalog(this.#writing, id)
  }

  sweepMark(): number {
    return readSweepMark(this.#writing.connection, this.#writing.space)
  }

  runEndingAt(timeline: TimelineId, seq: number): FeedPosition | null {
    const run = this.#writing.log.runEndingAt(this.#existing(timeline)!, seq)
    return run && toPosition(run.position)
  }

  cursorBefore(position: FeedPosition): string | null {
    return cursorBehind(this.#writing, position)
  }

  cursor(name: string): { readonly owner: TimelineId; readonly position: FeedPosition } | null {
    return findCursor(this.#writing, name)
  }

  unread(timeline: TimelineId): number {
    return this.#writing.timelines.find(timeline)?.row.mail ?? 0
  }

  message(to: TimelineId, id: MessageId): 'unread' | 'consumed' | null {
    const timeline = this.#writing.timelines.find(to)
    return timeline && findMessage(this.#writing.connection, timeline, id)
  }

  hasRequest(number: number): boolean {
    return hasRequest(this.#writing.connection, this.#writing.space, number)
  }

  isRetired(worker: WorkerId): boolean {
    return this.#writing.workers.isRetired(worker)
  }

  isAlive(worker: WorkerId): boolean {
    return this.#writing.workers.isAlive(worker, this.#writing.now)
  }

  /** A stub only has mail: its timeline does not exist yet. */
  #existing(name: TimelineId): Timeline | null {
    const timeline = this.#writing.timelines.find(name)
    return timeline && !timeline.row.isStub ? timeline : null
  }
}
