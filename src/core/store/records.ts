// The records that a store keeps and returns: heads, runs of entries, catalog records, mail, positions in the feed. Part of
// the store's contract (ports.ts).

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

/** Where a fork left its parent: history up to and including `seq` belongs to the parent. */
export interface Base {
  readonly timeline: TimelineId
  readonly seq: number
  readonly digest: Digest
}

export interface Head {
  readonly timeline: TimelineId
  /** Last sequence; without appended entries base.seq, else the floor at creation, else 0. */
  readonly seq: number
  /**
   * How often a timeline was created under this id: 1 for the first, and one more each time the id is used again after it was
   * forgotten. A rollback does not change it.
   */
  readonly life: number
  /** 0 until a worker first takes the timeline. A later life starts from the last epoch of the previous one. */
  readonly epoch: number
  readonly digest: Digest
  readonly owner: WorkerId | null
  /** The owner's worker has beaten within its lease (database clock) and was not retired. */
  readonly isOwnerAlive: boolean
  /** History up to and including this sequence may be removed; `floorDigest` is the digest there. */
  readonly floor: number
  readonly floorDigest: Digest
  readonly base: Base | null
  readonly queue: string | null
  readonly priority: number
  /** '' until set. */
  readonly status: string
  /** Database time of the next wakeup; null: only mail wakes the timeline. */
  readonly wakeup: number | null
  /** Number of messages not yet consumed. */
  readonly mail: number
  readonly attributes: Readonly<Record<string, Attribute>>
  /**
   * The last guarded commit that was applied here, by which a lost answer is resolved. A claim, a retirement and mail do not
   * change it.
   */
  readonly operation: OperationId | null
  readonly createdAt: number
  readonly updatedAt: number
}

/** One record of the catalog: a published checkpoint. */
export interface ManifestRecord {
  readonly id: ManifestId
  readonly seq: number
  readonly epoch: number
  /** Digest of history at `seq`: it binds the state to its coordinate. */
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
  /** Set by `marks`. */
  readonly verifiedAt: number | null
  readonly invalid: string | null
  readonly drilledAt: number | null
  readonly drill: string | null
}

/** A checkpoint to be published. */
export interface NewManifest extends ManifestRecord {
  /**
   * Every chunk that the checkpoint names and its base does not was put or touched at this time or later. SWEPT if the sweep
   * mark is above: a collector that does not know this checkpoint may sweep some of them. Absent if it adds no chunk.
   */
  readonly chunksSince?: number
}

/** A change to the catalog's notes on one checkpoint of the guarded timeline. A mark on a missing checkpoint is dropped. */
export interface ManifestMark {
  readonly id: ManifestId
  readonly verifiedAt?: number
  /** Null clears it: a later, sound reading showed that the checkpoint is fine. */
  readonly invalid?: string | null
  readonly drilledAt?: number
  readonly drill?: string
  readonly isPinned?: boolean
  readonly label?: string
}

export interface OutgoingMessage {
  /** Chosen by the sender. A second message to the same timeline with the same id is dropped, even after consumption. */
  readonly id: MessageId
  readonly to: TimelineId
  /** If set: only to this life of the timeline. Default: to the timeline under this id, even if it is created later. */
  readonly life?: number
  readonly kind: string
  /** An envelope (engine/storage/seal). */
  readonly data: Uint8Array
}

export interface Message extends OutgoingMessage {
  readonly sentAt: number
}

/**
 * Unread mail. It contains every unread message that was durable before `now` (the store's clock), except those beyond
 * `limit`.
 */
export interface Inbox {
  readonly messages: Message[]
  readonly now: number
}

/**
 * Opaque inside the store and the engine; compares as text. `feedStart` is before everything. engine/feed/outside-position.ts
 * defines its form outside the store.
 */
export type FeedPosition = string
export const feedStart: FeedPosition = ''

/**
 * The last forgotten life of an id. Ids are stored as the start of their digest (identity.ts, pastName), so that a store
 * does not reveal deleted names.
 */
export interface PastLife {
  readonly name: string
  readonly life: number
  /** The last epoch of that life. */
  readonly epoch: number
  readonly forgottenAt: number
}

/** The outcome of a repair of remembered lives, in words: one for each row. */
export interface PastRepair {
  /** The damage that was repaired. */
  readonly mended: readonly string[]
  readonly lost: readonly string[]
}
