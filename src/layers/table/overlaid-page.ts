// The rows of one page, overlaid with newer ones, in key order. A row is decoded on demand, or copied in its encoded form:
// rewriting a page copies unchanged rows.

import { RepriseError } from '../../core/errors.ts'
import type { BlockView } from '../../core/keyed-state/block-view.ts'
import type { MigrateRow } from './versions.ts'

/** A row that is newer than its page; null: deleted. */
export type Cell<V> = { readonly value: V } | null

interface Codec {
  encode(value: unknown): Uint8Array
  decode(bytes: Uint8Array): unknown
}

export class OverlaidPage<V> {
  readonly keys: string[] = []
  readonly #page: BlockView | null
  readonly #codec: Codec
  readonly #migrate: MigrateRow<V> | null
  /** The position of each row in the page, or the row itself. */
  readonly #places: (number | { readonly value: V })[] = []

  /** `migrate`: for a page with rows of an older version. */
  constructor(
    page: BlockView | null,
    cells: ReadonlyMap<string, Cell<V>>,
    codec: Codec,
    migrate: MigrateRow<V> | null = null,
  ) {
    this.#page = page
    this.#codec = codec
    this.#migrate = migrate
    const newer = [...cells].sort(([a], [b]) => (a < b ? -1 : 1))
    const count = page?.size ?? 0
    let at = 0
    for (const [key, cell] of newer) {
      for (; at < count; at++) {
        const own = page!.key(at)
        if (own >= key) {
          if (own === key) at += 1
          break
        }
        this.#add(own, at)
      }
      if (cell !== null) this.#add(key, cell)
    }
    for (; at < count; at++) this.#add(page!.key(at), at)
  }

  value(index: number): V {
    const place = this.#places[index]!
    return typeof place === 'number' ? decodeRow<V>(this.#page!, place, this.#codec, this.#migrate) : place.value
  }

  encoded(index: number): Uint8Array {
    const place = this.#places[index]!
    const isAsStored = typeof place === 'number' && this.#migrate === null
    return isAsStored ? bytesOf(this.#page!, place) : this.#codec.encode(this.value(index))
  }

  #add(key: string, place: number | { readonly value: V }): void {
    this.keys.push(key)
    this.#places.push(place)
  }
}

export function decodeRow<V>(page: BlockView, at: number, codec: Codec, migrate: MigrateRow<V> | null): V {
  const row = codec.decode(bytesOf(page, at))
  return migrate ? migrate(row, page.key(at)) : (row as V)
}

function bytesOf(page: BlockView, at: number): Uint8Array {
  const bytes = page.value(at)
  if (bytes === null) throw new RepriseError('CHECKPOINT_DAMAGED', 'a page has a key without a value')
  return bytes
}
