// The operations that chunks and shipping need from an object store. The S3 client implements them over HTTP, a directory
// in files, and tests in memory, with any fault they need.

export interface ObjectRow {
  readonly key: string
  readonly bytes: number
  /** By the clock of the object store, milliseconds since 1970. */
  readonly modifiedAt: number
}

/** A part of an object: bytes from an offset, or its last bytes. */
export type Range = { readonly from: number; readonly bytes: number } | { readonly last: number }

export interface Objects {
  /** For people; never contains credentials. */
  readonly name: string
  readonly meter: Meter
  /**
   * Durable, and visible to every read that begins after it resolved. With `onlyNew` it is refused (false) if the key already
   * has an object; `probeConditions` detects a store that ignores this condition.
   */
  put(key: string, bytes: Uint8Array, onlyNew?: boolean): Promise<boolean>
  /** Null: there is no object. Returns fewer bytes than requested only at the end of the object. */
  get(key: string, range?: Range): Promise<Uint8Array | null>
  /** All objects with this prefix, in key order, across all pages. */
  list(prefix: string): Promise<ObjectRow[]>
  /** Missing keys are skipped. */
  delete(keys: readonly string[]): Promise<void>
  /** The object store's time of the last answer, milliseconds since 1970. */
  now(): number
}

/** Counts the requests of this process to the object store, which determine its cost. */
export interface Meter {
  puts: number
  gets: number
  lists: number
  deletes: number
  /** Requests that were retried, or sent again because the first was slow. The counts above include them. */
  retries: number
  hedges: number
  bytesOut: number
  bytesIn: number
}

export function newMeter(): Meter {
  return { puts: 0, gets: 0, lists: 0, deletes: 0, retries: 0, hedges: 0, bytesOut: 0, bytesIn: 0 }
}
