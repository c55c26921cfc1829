// The input of a commit decision: the namespace, including the earlier commits of the batch. A store answers these
// queries and applies nothing meanwhile.

import type { Digest, ManifestId, MessageId, OperationId, TimelineId, WorkerId } from '../coordinate.ts'
import type { Base, FeedPosition, ManifestRecord, PastLife } from '../store/ports.ts'

/** The part of a head that the rules read and change; the commit sets the other fields directly. */
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

/** The fields of a catalog record that the rules read. */
export type CheckpointFacts = Pick<ManifestRecord, 'id' | 'seq' | 'isPinned' | 'verifiedAt' | 'invalid'>

export interface CommitView {
  /** The store's clock. */
  readonly now: number
  /** Null if the timeline does not exist, even if mail waits for it. */
  head(timeline: TimelineId): HeadFacts | null
  /** The last forgotten life of this id. An id without one starts above the lowest life that the store allows. */
  past(timeline: TimelineId): Pick<PastLife, 'life' | 'epoch'>
  forks(timeline: TimelineId): Iterable<ForkFacts>
  catalog(timeline: TimelineId): readonly CheckpointFacts[]
  /** Searches the catalogs of all timelines of the namespace. */
  hasCheckpoint(id: ManifestId): boolean
  /** Chunks that were last touched before this mark may be gone. */
  sweepMark(): number
  /** The feed position of the run of this timeline that ends at this sequence; null if there is none. */
  runEndingAt(timeline: TimelineId, seq: number): FeedPosition | null
  /** The position of a run that is appended now. */
  readonly nextPosition: FeedPosition
  /** The name of a cursor that has not passed this position; null: none. */
  cursorBefore(position: FeedPosition): string | null
  cursor(name: string): { readonly owner: TimelineId; readonly position: FeedPosition } | null
  /** Number of unread messages of the timeline. */
  unread(timeline: TimelineId): number
  /** Whether the message exists, and whether it was read. */
  message(to: TimelineId, id: MessageId): 'unread' | 'consumed' | null
  /** Whether the request waits in the table of the namespace. */
  hasRequest(number: number): boolean
  isRetired(worker: WorkerId): boolean
  isAlive(worker: WorkerId): boolean
}
