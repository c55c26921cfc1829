// The port of a store that is shipped as pages: the state at one moment, and the changes since another. Only a store that
// consists of one file of pages and a log of pages has it (SQLite).

/** A position in the log of pages. Only the source interprets it; each record stores it, so that shipping can resume there. */
export interface LogPlace {
  /** The connection that read it: its proofs require that it stayed open all the time. */
  readonly run: string
  /** The round of the log: the log restarts again and again. */
  readonly salts: string
  readonly frame: number
  /** The running checksum at that frame. */
  readonly sum: readonly [number, number]
  /** Number of commits so far, by a counter that only a fresh index resets. */
  readonly change: number
}

/** A snapshot of the store: everything that was durable when `look` was called. */
export interface Moment {
  readonly place: LogPlace
  readonly pageBytes: number
  readonly pageCount: number
  /** The end of the feed. The snapshot may contain slightly more, never less. */
  readonly position: number
  /** The time of `look`: everything in the snapshot was committed before. */
  readonly at: number
}

/** Changed pages. Only after a batch that `isWhole` do they form an actual state of the store. */
export interface PageBatch {
  readonly place: LogPlace
  readonly pageCount: number
  readonly isWhole: boolean
  /** Keyed by page number, from 1. */
  readonly pages: ReadonlyMap<number, Uint8Array>
}

export interface PageSource {
  /** The store's own id, created once and stored in it: a copy has it too. */
  readonly storeId: string
  readonly file: string
  /** The current durable state. From this point, the log keeps all of it until `advance` or `release`. */
  look(): Moment
  /**
   * The changes from `since` up to the snapshot, in order. Null: it cannot be proven that the log still has all of them, and
   * the whole state must be read. Throws STORE_BUSY if that becomes clear during the read.
   */
  changes(since: LogPlace, until: Moment, pagesMax: number): Generator<PageBatch> | null
  /**
   * The whole state at one moment, in parts of `pagesPerPart` pages. `end` throws STORE_BUSY if the snapshot could not be held
   * meanwhile: then all parts are invalid.
   */
  whole(pagesPerPart: number): { readonly moment: Moment; parts(): Generator<Uint8Array>; end(): void }
  /** Whether anything was committed since. Takes no locks. */
  isBehind(place: LogPlace): boolean
  /** Everything up to the last `look` was shipped: the log may restart. */
  advance(): void
  /** The log grows too large: it may restart, and changes that were not shipped must be read from the whole state. */
  release(): void
  logBytes(): number
  close(): void
}
