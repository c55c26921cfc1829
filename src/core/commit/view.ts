// What a commit is decided on: the namespace as it is, with the earlier commits of the batch in it. A store answers these
// questions; it applies nothing while it does.

import type { Digest, ManifestId, MessageId, OperationId, TimelineId, WorkerId } from '../coordinate.ts'
import type { Base, FeedPosition, ManifestRecord, PastLife } from '../store/ports.ts'

/** The part of a timeline that the rules read and change; the rest of a head is set as the commit says. */
export interface HeadFacts {
  readonly seq: number
  readonly life: number
  readonly epoch: number
  readonly digest: Digest
  readonly floor: number
  readonly floorDigest: Digest
  readonly base: Base | null
  readonly owner: WorkerId | null
  readonly operation: OperationId | null
  readonly updatedAt: number
}

export interface ForkFacts {
  readonly timeline: TimelineId
  readonly floor: number
  readonly baseSeq: number
}

/** What the rules read of a line of the catalog. */
export type CheckpointFacts = Pick<ManifestRecord, 'id' | 'seq' | 'isPinned' | 'verifiedAt' | 'invalid'>

export interface CommitView {
  /** The store's clock. */
  readonly now: number
  /** Null if it does not exist, mail or not. */
  head(timeline: TimelineId): HeadFacts | null
  /** The life of this id that was forgotten last. An id without one starts above the lowest life that the store allows. */
  past(timeline: TimelineId): Pick<PastLife, 'life' | 'epoch'>
  forks(timeline: TimelineId): Iterable<ForkFacts>
  catalog(timeline: TimelineId): readonly CheckpointFacts[]
  /** In the catalog of any timeline of the namespace. */
  hasCheckpoint(id: ManifestId): boolean
  /** Chunks that were last touched before it may be gone. */
  sweepMark(): number
  /** The feed position of the run of this timeline that ends at this sequence; null if none does. */
  runEndingAt(timeline: TimelineId, seq: number): FeedPosition | null
  /** The position that a run appended now will have. */
  readonly nextPosition: FeedPosition
  /** The name of a cursor that has not passed this position. */
  cursorBefore(position: FeedPosition): string | null
  cursor(name: string): { readonly owner: TimelineId; readonly position: FeedPosition } | null
  /** How many unread messages it has. */
  unread(timeline: TimelineId): number
  /** Read or not. */
  message(to: TimelineId, id: MessageId): 'unread' | 'consumed' | null
  isRetired(worker: WorkerId): boolean
  isAlive(worker: WorkerId): boolean
}
