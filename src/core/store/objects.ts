// What chunks and shipping need of an object store, in five promises. The S3 client keeps them over HTTP, a directory in
// files; tests keep them in memory, with every fault that they want.

export interface ObjectRow {
  readonly key: string
  readonly bytes: number
  /** By the clock of the object store, milliseconds since 1970. */
  readonly modifiedAt: number
}

/** A part of an object: from a place on, or the last bytes of it. */
export type Range = { readonly from: number; readonly bytes: number } | { readonly last: number }

export interface Objects {
  /** For people: never with keys. */
  readonly name: string
  readonly meter: Meter
  /**
   * Durable, and seen by every read that begins after it resolved. With `onlyNew` it is refused (false) where the key has an
   * object already; a store that ignores that condition is found by `probeConditions`.
   */
  put(key: string, bytes: Uint8Array, onlyNew?: boolean): Promise<boolean>
  /** Null: there is none. Fewer bytes than asked for, only where the object ends. */
  get(key: string, range?: Range): Promise<Uint8Array | null>
  /** In the order of their keys, every page of them. */
  list(prefix: string): Promise<ObjectRow[]>
  /** Those that are not there are passed over. */
  delete(keys: readonly string[]): Promise<void>
  /** Milliseconds since 1970, as the object store has them; of the last answer. */
  now(): number
}

/** What was asked of the object store by this process: it is what it costs. */
export interface Meter {
  puts: number
  gets: number
  lists: number
  deletes: number
  /** Requests that were sent again, or a second time because the first was slow. They are in the counts above. */
  retries: number
  hedges: number
  bytesOut: number
  bytesIn: number
}

export function newMeter(): Meter {
  return { puts: 0, gets: 0, lists: 0, deletes: 0, retries: 0, hedges: 0, bytesOut: 0, bytesIn: 0 }
}
