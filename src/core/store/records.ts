// What a store keeps, as it hands it out: heads, runs of entries, the lines of a catalog, mail, positions in the feed. Part
// of the store's contract (ports.ts).

import type { Digest, ManifestId, MessageId, OperationId, TimelineId, WorkerId } from '../coordinate.ts'
import type { Attribute } from './attribute.ts'

/** Entries of one timeline that became durable together (format in entry-run.ts). */
export interface EntryRun {
  readonly first: number
  readonly count: number
  /** Digest of the whole history up to the last entry of this run. */
  readonly digest: Digest
  readonly bytes: Uint8Array
}

/** Where a fork left its parent: history up to and including `seq` is the parent's. */
export interface Base {
  readonly timeline: TimelineId
  readonly seq: number
  readonly digest: Digest
}

export interface Head {
  readonly timeline: TimelineId
  /** Last sequence; when nothing was appended base.seq, else the floor it was made with, else 0. */
  readonly seq: number
  /**
   * How often a timeline was made under this id: 1 for the first, and one more each time the id is used again after it was
   * forgotten. A rollback keeps it.
   */
  readonly life: number
  /** 0 until somebody first takes it. A later life starts from the last epoch of the life before it. */
  readonly epoch: number
  readonly digest: Digest
  readonly owner: WorkerId | null
  /** The owner's worker has beaten within its lease (database clock) and was not retired. */
  readonly isOwnerAlive: boolean
  /** History up to and including this sequence may be gone; `floorDigest` is the digest there. */
  readonly floor: number
  readonly floorDigest: Digest
  readonly base: Base | null
  readonly queue: string | null
  readonly priority: number
  /** '' until set. */
  readonly status: string
  /** Database time at which it wants to run again; null: only when mail comes. */
  readonly wakeup: number | null
  /** Number of messages not yet consumed. */
  readonly mail: number
  readonly attributes: Readonly<Record<string, Attribute>>
  /**
   * The last guarded commit that was applied here: how a lost answer is asked for. A claim, a retirement and mail leave it
   * as it is.
   */
  readonly operation: OperationId | null
  readonly createdAt: number
  readonly updatedAt: number
}

/** One line of the catalog: a published checkpoint. */
export interface ManifestRecord {
  readonly id: ManifestId
  readonly seq: number
  readonly epoch: number
  /** Digest of history at `seq`: state and coordinate are bound here. */
  readonly digest: Digest
  /** The encoded manifest (core/checkpoint/manifest.ts) and its own digest. */
  readonly body: Uint8Array
  readonly bodyDigest: Digest
  /** The checkpoint whose chunks this one reuses; it must still be in the catalog when this one is published. */
  readonly baseId: ManifestId | null
  readonly createdAt: number
  readonly trigger: string
  readonly label: string | null
  /** Kept until released. */
  readonly isPinned: boolean
  readonly foldVersion: string
  /** Bytes of the whole state as stored, and bytes that this checkpoint added. */
  readonly totalBytes: number
  readonly addedBytes: number
  /** Set by marks. */
  readonly verifiedAt: number | null
  readonly invalid: string | null
  readonly drilledAt: number | null
  readonly drill: string | null
}

/** A checkpoint on its way into the catalog. */
export interface NewManifest extends ManifestRecord {
  /**
   * Every chunk that it names and its base does not was put or touched at this time or later. SWEPT if the sweep mark lies
   * above: a collector that does not know of this checkpoint may take some of them. Left out by one that adds no chunk.
   */
  readonly chunksSince?: number
}

/** A change to the catalog's notes on one checkpoint of the guarded timeline. A mark on one that is gone is dropped. */
export interface ManifestMark {
  readonly id: ManifestId
  readonly verifiedAt?: number
  /** Null takes it back: a later, sound reading showed that nothing is wrong with it. */
  readonly invalid?: string | null
  readonly drilledAt?: number
  readonly drill?: string
  readonly isPinned?: boolean
  readonly label?: string
}

export interface OutgoingMessage {
  /** Chosen by the sender. A second message to the same timeline with the same id is dropped, also after consumption. */
  readonly id: MessageId
  readonly to: TimelineId
  /** If given: only to this life of the timeline. Default: to the timeline under this id, also if it is made later. */
  readonly life?: number
  readonly kind: string
  /** An envelope (engine/storage/seal). */
  readonly data: Uint8Array
}

export interface Message extends OutgoingMessage {
  readonly sentAt: number
}

/**
 * Unread mail. Of what was durable before `now` (the store's clock) and is unread, nothing is missing but what `limit` left
 * out.
 */
export interface Inbox {
  readonly messages: Message[]
  readonly now: number
}

/**
 * Inside the store and the engine: opaque, compares as text. `feedStart` is before everything. How it leaves the store:
 * engine/feed/outside-position.ts.
 */
export type FeedPosition = string
export const feedStart: FeedPosition = ''

/**
 * The last life of an id that was forgotten. Ids are kept as the start of their digest (identity.ts, pastName), so that a store
 * does not show names that were deleted.
 */
export interface PastLife {
  readonly name: string
  readonly life: number
  /** The last epoch of that life. */
  readonly epoch: number
  readonly forgottenAt: number
}
