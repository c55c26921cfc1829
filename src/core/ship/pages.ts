// The port of a store that is shipped as pages: what one moment of it held, and what changed since another. Only a store that
// is one file of pages with a log of pages beside it has it (SQLite).

/** Where the log of pages stood. Read by the source alone; it lies in each record, so that shipping goes on from there. */
export interface LogPlace {
  /** The connection that saw it: what it can prove rests on having been open all the time. */
  readonly run: string
  /** Which round of the log: it is begun anew again and again. */
  readonly salts: string
  readonly frame: number
  /** The running checksum at that frame. */
  readonly sum: readonly [number, number]
  /** How many commits there had been, by a counter that only a fresh index begins anew. */
  readonly change: number
}

/** A moment of the store: everything that was durable when it was looked at. */
export interface Moment {
  readonly place: LogPlace
  readonly pageBytes: number
  readonly pageCount: number
  /** The end of the feed. The moment may hold a little more, never less. */
  readonly position: number
  /** When it was looked at: everything in it was committed before. */
  readonly at: number
}

/** Pages that changed. Only after one that `isWhole` do they make a state that the store was in. */
export interface PageBatch {
  readonly place: LogPlace
  readonly pageCount: number
  readonly isWhole: boolean
  /** By number, from 1. */
  readonly pages: ReadonlyMap<number, Uint8Array>
}

export interface PageSource {
  /** The store's own, made once and kept in it: a copy has it too. */
  readonly storeId: string
  readonly file: string
  /** What is durable now. From here on nothing of it leaves the log until `advance` or `release`. */
  look(): Moment
  /**
   * What changed from that place up to the moment, in order. Null: nobody can prove that the log still has all of it, and the
   * whole state has to be read. Throws STORE_BUSY if that turns out on the way.
   */
  changes(since: LogPlace, until: Moment, pagesMax: number): Generator<PageBatch> | null
  /**
   * Everything as one moment has it, in runs of `pagesPerPart` pages. `end` throws STORE_BUSY if the moment slipped away
   * meanwhile: then nothing of it counts.
   */
  whole(pagesPerPart: number): { readonly moment: Moment; parts(): Generator<Uint8Array>; end(): void }
  /** Has anything been committed since? Takes no hold of anything. */
  isBehind(place: LogPlace): boolean
  /** Everything up to the last look was shipped: the log may begin anew. */
  advance(): void
  /** The log grows too large: it may go, and what was not shipped has to be read from the whole. */
  release(): void
  logBytes(): number
  close(): void
}
