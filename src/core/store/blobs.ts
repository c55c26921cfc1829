// The port for chunks: immutable bytes by digest, each with the time of its last put or touch. Part of the store port
// (ports.ts); a directory of files may replace the store's own.

import type { Digest, TimelineId } from '../coordinate.ts'

export interface ChunkRow {
  readonly digest: Digest
  readonly bytes: number
  /** Time of the last put or touch, by the store's clock. */
  readonly touchedAt: number
}

export interface StoredChunk {
  readonly digest: Digest
  readonly bytes: Uint8Array
  /**
   * Chunks of different stripes must not be lost together: a store in one file keeps them in different structures. Below
   * `stripes` (core/checkpoint/parity.ts). Default: anywhere.
   */
  readonly stripe?: number
}

export interface Blobs {
  /** Preferred number of bytes for one `put` or `get`. Default: one megabyte. */
  readonly batchBytes?: number | undefined
  /** The store itself protects chunks against damage, as object stores do: they need no parity. */
  readonly isDurable?: boolean | undefined
  /**
   * Durable when it resolves. A chunk that already exists is touched: its age restarts. The age of all chunks then counts
   * from the store's clock, or from `at` if that is later.
   */
  put(chunks: readonly StoredChunk[], at?: number): Promise<void>
  /** Touches the existing chunks, as `put` does, and returns the missing ones. Durable when it resolves. */
  touch(digests: readonly Digest[], at: number): Promise<Digest[]>
  /** In the requested order; null where missing, and where the store itself detects damage. The caller checks the digests. */
  get(digests: readonly Digest[]): Promise<(Uint8Array | null)[]>
  /** Whether each chunk exists, in the requested order; its bytes may be damaged. Absent: the store does not know. */
  has?(digests: readonly Digest[]): Promise<boolean[]>
  /** In digest order. */
  list(after: Digest | null, limit: number): Promise<ChunkRow[]>
  /** Deletes the chunks that were last touched before that time (store's clock), and returns their number. */
  delete(digests: readonly Digest[], touchedBefore: number): Promise<number>
  /** Like `Upkeep.rewrite`, for chunks. Neither their names nor their ages change. */
  rewrite(change: Change, after: string | null, limit: number): Promise<Rewritten>
  /**
   * Returns the space of deleted chunks, for stores whose delete does not; with `isFinal`, none of their bytes remain when it
   * resolves. Absent: delete returns the space itself.
   */
  compact?(isFinal?: boolean): Promise<void>
  /**
   * An intact copy of a chunk that `get` returned damaged or not at all; null if there is none. Stores it again unless
   * `putsBack` is false. Stores do not implement it: engine/storage/redundancy does.
   */
  mend?(digest: Digest, putsBack?: boolean): Promise<Uint8Array | null>

  /**
   * Only of a sharded store: the chunks of the database that has this timeline. For chunks that must be available whenever
   * the timeline is, such as the copies of its catalog.
   */
  of?(timeline: TimelineId): Blobs
}

/** Returns the replacement of stored bytes, or null to keep them. Called inside a transaction, so it is synchronous. */
export type Change = (bytes: Uint8Array) => Uint8Array | null

export type Rewritable = 'runs' | 'checkpoints' | 'messages'

export interface Rewritten {
  /** Where to continue; null: all were processed. */
  readonly next: string | null
  readonly seen: number
  readonly changed: number
  /** Bytes that need a change but could not be changed now: call again after another write. */
  readonly left: number
}

/** A readable run next to damage. */
export interface LegibleRun {
  readonly first: number
  readonly count: number
  readonly bytes: Uint8Array
  /** Digest of the history up to its end; null: it depends on lost runs. */
  readonly digest: Digest | null
  /** The bytes are as written, according to their own checksum. */
  readonly isSound: boolean
}

/** Replacement bytes for one run of a timeline: the run that starts at `first` and has this digest. */
export interface RunChange {
  readonly first: number
  readonly digest: Digest
  readonly bytes: Uint8Array
  /**
   * Number of entries. Set if the store has the run damaged or not at all, by a caller that verified that the new run connects
   * the history before it with the history after it: it replaces the present parts.
   */
  readonly count?: number
  /** The run replaces several unreadable ones: their damaged rows are removed. Only with `count`. */
  readonly isLost?: boolean
}

const tag = 255
export const tagBytes = 7

/** Whether this is the name of parity or of a second copy (engine/storage/redundancy/keys.ts). They sort last in lists. */
export function isRedundancy(name: Digest): boolean {
  for (let i = 0; i < tagBytes; i++) if (name[i] !== tag) return false
  return true
}
