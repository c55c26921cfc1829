// The two containers of the memory world. A snapshot shares both in constant time: a map is copied by the first write
// after the sharing, a log only when two branches of it diverge.

import { firstIndex } from '../../core/binary-search.ts'

/** A map whose snapshots cost nothing until the next write. */
export class SharedMap<Key, Value> {
  #map: Map<Key, Value>
  #isShared = false

  constructor(map: Map<Key, Value> = new Map()) {
    this.#map = map
  }

  get size(): number {
    return this.#map.size
  }

  get(key: Key): Value | undefined {
    return this.#map.get(key)
  }

  has(key: Key): boolean {
    return this.#map.has(key)
  }

  entries(): IterableIterator<[Key, Value]> {
    return this.#map.entries()
  }

  values(): IterableIterator<Value> {
    return this.#map.values()
  }

  set(key: Key, value: Value): void {
    this.#own().set(key, value)
  }

  delete(key: Key): boolean {
    return this.#map.has(key) && this.#own().delete(key)
  }

  share(): SharedMap<Key, Value> {
    const twin = new SharedMap(this.#map)
    twin.#isShared = true
    this.#isShared = true
    return twin
  }

  #own(): Map<Key, Value> {
    if (this.#isShared) {
      this.#map = new Map(this.#map)
      this.#isShared = false
    }
    return this.#map
  }
}

/** An immutable list that is cheap to append to and to trim at its beginning: views of one growing array. */
export class Log<Item> {
  readonly #items: Item[]
  readonly #start: number
  readonly #end: number

  constructor(items: Item[] = [], start = 0, end = items.length) {
    this.#items = items
    this.#start = start
    this.#end = end
  }

  get length(): number {
    return this.#end - this.#start
  }

  at(index: number): Item | undefined {
    return index < 0 || index >= this.length ? undefined : this.#items[this.#start + index]
  }

  last(): Item | undefined {
    return this.at(this.length - 1)
  }

  append(item: Item): Log<Item> {
    // Another view already wrote beyond our end: leave the array to that view.
    const items = this.#items.length === this.#end ? this.#items : this.#items.slice(this.#start, this.#end)
    const start = items === this.#items ? this.#start : 0
    items.push(item)
    return new Log(items, start)
  }

  dropFirst(count: number): Log<Item> {
    const start = Math.min(this.#start + count, this.#end)
    // Once half of it is unused, copy the rest so that the memory can be freed.
    return start > this.#end / 2 ? new Log(this.#items.slice(start, this.#end)) : new Log(this.#items, start, this.#end)
  }

  /** Index of the first item for which the test holds, provided that it holds for all later ones; the length if for none. */
  search(isAtOrAfter: (item: Item) => boolean): number {
    return firstIndex(0, this.length, (at) => isAtOrAfter(this.at(at)!))
  }

  *[Symbol.iterator](): IterableIterator<Item> {
    for (let index = this.#start; index < this.#end; index++) yield this.#items[index]!
  }
}
