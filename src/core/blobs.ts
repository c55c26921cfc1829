// The port for chunks: immutable bytes by digest, each with the time at which somebody last cared for it.

import type { Digest } from './coordinate.ts'

export interface ChunkRow {
  readonly digest: Digest
  readonly bytes: number
  /** Last put or touched, by the store's clock. */
  readonly touchedAt: number
}

export interface Blobs {
  /**
   * Durable when it resolves. A chunk that is there already is touched: its age starts anew. All of them are then as young
   * as the store's clock says, or as `at` if that is later.
   */
  put(chunks: readonly { readonly digest: Digest; readonly bytes: Uint8Array }[], at?: number): Promise<void>
  /** Touches those that are there, as `put` does, and says which are not. Durable when it resolves. */
  touch(digests: readonly Digest[], at: number): Promise<Digest[]>
  /** In the order asked; null where missing. The caller checks the digests. */
  get(digests: readonly Digest[]): Promise<(Uint8Array | null)[]>
  /** In digest order. */
  list(after: Digest | null, limit: number): Promise<ChunkRow[]>
  /** Deletes those that were last touched before that time (store's clock), and says how many. */
  delete(digests: readonly Digest[], touchedBefore: number): Promise<number>
  /** As `Store.rewrite`, for chunks. Neither their names nor their ages change. */
  rewrite(change: Change, after: string | null, limit: number): Promise<Rewritten>
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

/** Other bytes for one run of a timeline: the one that starts at `first` and has this digest. */
export interface RunChange {
  readonly first: number
  readonly digest: Digest
  readonly bytes: Uint8Array
}
