// Keyed: an ordered map from text to values, for state that is too large to write as a whole at every checkpoint. Put
// one in a state (as the state, or as a top-level property of it) and a checkpoint writes only the changes.
// Promises: keys are ordered by UTF-16 code units, as `<` orders strings; `snapshot` and a capture cost one reference per
// page, and work continues meanwhile. Requirement: treat values as immutable. A change of a value in place is not
// detected; set a new one instead.

import { shapeOf } from '../data-shape.ts'
import { RepriseError } from '../errors.ts'
import { checkList, checkObject } from '../options.ts'
import { UnreadPages } from './page.ts'
import { KeyedTree } from './page-tree.ts'

export interface KeyedRange {
  /** Inclusive. */
  readonly from?: string
  /** Exclusive. */
  readonly to?: string
  /** Only keys with this prefix. */
  readonly prefix?: string
  /** Descending key order. */
  readonly reverse?: boolean
  readonly limit?: number
}

/** @example keyed([['a', 1], ['b', 2]]).get('b') // 2 */
export function keyed<V>(entries: Iterable<readonly [string, V]> = []): Keyed<V> {
  const isIterable = typeof (entries as Partial<typeof entries> | null)?.[Symbol.iterator] === 'function'
  if (!isIterable) throw new RepriseError('INVALID_ARGUMENT', 'keyed() takes pairs of a key and a value')
  const made = new Keyed<V>()
  for (const pair of entries) {
    checkList('a pair of keyed()', pair)
    made.set(pair[0], pair[1])
  }
  return made
}

export class Keyed<V = unknown> {
  #tree: KeyedTree<V>

  /** @internal `tree` is for copies: users create an empty map. */
  constructor(tree: KeyedTree<V> = new KeyedTree<V>()) {
    this.#tree = tree
  }

  /**
   * The pages of the map, for the engine.
   * @internal
   */
  static treeOf<V>(from: Keyed<V>): KeyedTree<V> {
    return from.#tree
  }

  /**
   * Throws UnreadPages unless the pages of all these keys were read, so that missing pages are read together, not one by one.
   * With an unread page, up to `before` preceding pages are requested too. Default of `keys`: all keys.
   * @internal
   */
  static need(map: Keyed<unknown>, keys?: Iterable<string>, before = 0): void {
    const unread = map.#tree.unreadOf(keys, before)
    if (unread.length > 0) throw new UnreadPages(unread)
  }

  get size(): number {
    return this.#tree.size
  }

  get(key: string): V | undefined {
    return this.#tree.get(key)
  }

  has(key: string): boolean {
    return this.#tree.find(key).found
  }

  set(key: string, value: V): this {
    if (typeof key !== 'string') {
      throw new RepriseError('INVALID_ARGUMENT', `a key of Keyed must be text (got ${shapeOf(key)})`)
    }
    this.#tree.set(key, value)
    return this
  }

  delete(key: string): boolean {
    return this.#tree.delete(key)
  }

  clear(): void {
    this.#tree.clear()
  }

  /**
   * An independent copy that shares pages until one side writes to them. The copy is cheap, but has no link to past
   * checkpoints: kept as state, it is first written as a whole.
   */
  snapshot(): Keyed<V> {
    return new Keyed(this.#tree.fork())
  }

  /**
   * Iterates in key order. The map may change meanwhile: each key occurs at most once, and later keys reflect the changes.
   * @example [...map.entries({ prefix: 'user/', reverse: true, limit: 10 })]
   */
  *entries(range: KeyedRange = {}): IterableIterator<[string, V]> {
    checkObject('a range of keys', range)
    const { low, high } = bounds(range)
    let left = range.limit ?? Number.POSITIVE_INFINITY
    const walk = range.reverse ? descend(this.#tree, low, high) : ascend(this.#tree, low, high)
    for (const entry of walk) {
      if (left-- <= 0) return
      yield entry
    }
  }

  *keys(range: KeyedRange = {}): IterableIterator<string> {
    for (const entry of this.entries(range)) yield entry[0]
  }

  *values(range: KeyedRange = {}): IterableIterator<V> {
    for (const entry of this.entries(range)) yield entry[1]
  }

  [Symbol.iterator](): IterableIterator<[string, V]> {
    return this.entries()
  }
}

function bounds(range: KeyedRange): { readonly low: string; readonly high: string | undefined } {
  let low = range.from ?? ''
  let high = range.to
  if (range.prefix !== undefined && range.prefix !== '') {
    if (range.prefix > low) low = range.prefix
    const end = prefixEnd(range.prefix)
    if (end !== undefined && (high === undefined || end < high)) high = end
  }
  return { low, high }
}

/** The first text after all texts with the prefix; undefined if there is none. */
function prefixEnd(prefix: string): string | undefined {
  for (let last = prefix.length - 1; last >= 0; last--) {
    const unit = prefix.charCodeAt(last)
    if (unit < 0xffff) return prefix.slice(0, last) + String.fromCharCode(unit + 1)
  }
  return undefined
}

function* ascend<V>(tree: KeyedTree<V>, low: string, high: string | undefined): Generator<[string, V]> {
  let { page, at } = tree.seek(low)
  let walked = 0
  for (let held = tree.page(page); held !== undefined; held = tree.page(page, walked)) {
    if (at >= held.keys.length) {
      page += 1
      walked += 1
      at = 0
      continue
    }
    const key = held.keys[at]!
    if (high !== undefined && key >= high) return
    const version = tree.version
    yield [key, held.values[at]!]
    at += 1
    if (tree.version === version) continue
    // Keys were added or removed: find the position after the last key again.
    const next = tree.seek(key)
    page = next.page
    at = tree.page(page)?.keys[next.at] === key ? next.at + 1 : next.at
  }
}

function* descend<V>(tree: KeyedTree<V>, low: string, high: string | undefined): Generator<[string, V]> {
  let { page, at } = high === undefined ? { page: tree.pageCount, at: 0 } : tree.seek(high)
  let walked = 0
  while (true) {
    at -= 1
    if (at < 0) {
      page -= 1
      if (page < 0) return
      at = tree.page(page, -walked)!.keys.length
      walked += 1
      continue
    }
    const held = tree.page(page)!
    const key = held.keys[at]!
    if (key < low) return
    const version = tree.version
    yield [key, held.values[at]!]
    if (tree.version !== version) ({ page, at } = tree.seek(key))
  }
}
