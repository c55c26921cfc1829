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
}
