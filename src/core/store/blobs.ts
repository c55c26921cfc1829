// The port for chunks: immutable bytes by digest, each with the time at which somebody last cared for it. Part of the store
// port (ports.ts); a directory of files may take the place of the store's own.

import type { Digest, TimelineId } from '../coordinate.ts'

export interface ChunkRow {
  readonly digest: Digest
  readonly bytes: number
  /** Last put or touched, by the store's clock. */
  readonly touchedAt: number
}

export interface StoredChunk {
  readonly digest: Digest
  readonly bytes: Uint8Array
  /**
   * Chunks of different stripes must not be lost together: a store in one file keeps them in different structures. Below
   * `stripes` (core/checkpoint/parity.ts). Left out: anywhere.
   */
  readonly stripe?: number
}

export interface Blobs {
  /** So many bytes are best put or asked for at once; a megabyte if left out. */
  readonly batchBytes?: number | undefined
  /** It sees to damage itself, as object stores do: chunks there need no parity. */
  readonly isDurable?: boolean | undefined
  /**
   * Durable when it resolves. A chunk that is there already is touched: its age starts anew. All of them are then as young
   * as the store's clock says, or as `at` if that is later.
   */
  put(chunks: readonly StoredChunk[], at?: number): Promise<void>
  /** Touches those that are there, as `put` does, and says which are not. Durable when it resolves. */
  touch(digests: readonly Digest[], at: number): Promise<Digest[]>
  /** In the order asked; null where missing, and where the store itself finds it damaged. The caller checks the digests. */
  get(digests: readonly Digest[]): Promise<(Uint8Array | null)[]>
  /** Which of these are there, in the order asked; their bytes may be damaged. Left out: nobody knows. */
  has?(digests: readonly Digest[]): Promise<boolean[]>
  /** In digest order. */
  list(after: Digest | null, limit: number): Promise<ChunkRow[]>
  /** Deletes those that were last touched before that time (store's clock), and says how many. */
  delete(digests: readonly Digest[], touchedBefore: number): Promise<number>
  /** As `Store.rewrite`, for chunks. Neither their names nor their ages change. */
  rewrite(change: Change, after: string | null, limit: number): Promise<Rewritten>
  /**
   * Gives back the space of what was deleted, where deleting does not; with `isFinal` no byte of it is left when it resolves.
   * Left out: deleting does.
   */
  compact?(isFinal?: boolean): Promise<void>
  /**
   * A sound copy of a chunk that `get` gave damaged or not at all, put back unless told not to; null if there is none. Not a
   * store's own: engine/storage/redundancy.
   */
  mend?(digest: Digest, putsBack?: boolean): Promise<Uint8Array | null>

  /**
   * Only of a store that is made of several: the chunks of the database that has this timeline. For what must be there
   * whenever the timeline is, such as the copies of its catalog.
   */
  of?(timeline: TimelineId): Blobs
}

/** Other bytes for stored ones, or null: they stay as they are. Called inside a transaction: it does not wait. */
export type Change = (bytes: Uint8Array) => Uint8Array | null

export type Rewritable = 'runs' | 'checkpoints' | 'messages'

export interface Rewritten {
  /** Where to go on; null: that was the last. */
  readonly next: string | null
  readonly seen: number
  readonly changed: number
  /** To be changed, but not just now: ask for it again after another write. */
  readonly left: number
}

/** A run around damage. */
export interface LegibleRun {
  readonly first: number
  readonly count: number
  readonly bytes: Uint8Array
  /** Of the history up to its end; null: it followed from what is lost. */
  readonly digest: Digest | null
  /** Its bytes are what was written, as a checksum of their own says. */
  readonly isSound: boolean
}

/** Other bytes for one run of a timeline: the one that starts at `first` and has this digest. */
export interface RunChange {
  readonly first: number
  readonly digest: Digest
  readonly bytes: Uint8Array
  /**
   * How many entries it has. Given where the store has the run damaged or not at all, by a caller who has found that this one
   * leads from what lies before to what comes after: it is put into its place, whatever is there.
   */
  readonly count?: number
  /** It takes the place of several that nobody can read: what is damaged of them goes. Only with `count`. */
  readonly isLost?: boolean
}

const tag = 255
export const tagBytes = 7

/** The name of parity or of a second copy (engine/storage/redundancy/keys.ts). These names come last in every list. */
export function isRedundancy(name: Digest): boolean {
  for (let i = 0; i < tagBytes; i++) if (name[i] !== tag) return false
  return true
}
