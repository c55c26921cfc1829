// The pages of a Keyed: sorted keys in sorted pages, copied on the first write after a snapshot. A snapshot therefore costs
// one array of page references; each page is copied only when it next changes.
// The tree also tracks the keys that changed since the last capture, and the chunks of each unchanged page. A page is
// identified by its position and its lower bound, never by its contents alone, so it may still be unread in the store:
// operations that need it throw UnreadPages, and the caller reads it and repeats the operation.

import { assert } from '../assert.ts'
import { firstIndex } from '../binary-search.ts'
import { type LoadedPage, type Owner, type Page, type Unread, UnreadPages, unreadPage } from './page.ts'

/** A page with more entries than this splits. */
export const pageEntriesMax = 512
/** A page with fewer entries merges with a neighbour, if both together stay well below the maximum. */
const pageEntriesMin = 64

/** The connection of a tree with its checkpoints; capture.ts maintains it. */
export interface CaptureLine {
  lineage: object
  /** The mark of the last capture that is known to be published. */
  mark: object | null
  /** The capture whose outcome is not known yet. */
  pending: { readonly mark: object; abandon(): void } | null
}

/** A frozen view: later changes of the tree do not affect it. */
export interface TreeSnapshot<V> {
  readonly pages: readonly Page<V>[]
  readonly bounds: readonly string[]
  readonly size: number
}

export class KeyedTree<V> {
  readonly line: CaptureLine = { lineage: {}, mark: null, pending: null }
  #owner: Owner = { owner: true }
  #pages: Page<V>[] = []
  /** bounds[i] is not above any key of page i and above every key of page i - 1. bounds[0] is unused. */
  #bounds: string[] = []
  #size = 0
  #version = 0
  #changed: Set<string> | null = null

  get size(): number {
    return this.#size
  }

  /** Increases with every added or removed key, so that an iteration notices. */
  get version(): number {
    return this.#version
  }

  /** Pages must be sorted and not empty; the tree takes ownership of them. Afterwards no key is marked as changed. */
  static load<V>(loaded: readonly LoadedPage<V>[]): KeyedTree<V> {
    const tree = new KeyedTree<V>()
    let before: string | undefined
    for (const each of loaded) {
      const isRead = 'keys' in each
      const first = isRead ? each.keys[0] : each.first
      assert(
        first !== undefined && (before === undefined || before < first),
        'loaded pages are in order, and not empty',
      )
      if (isRead) assert(each.keys.length === each.values.length, 'a loaded page has as many values as keys')
      before = isRead ? each.keys[each.keys.length - 1] : first
      tree.#pages.push(isRead ? { ...each, owner: tree.#owner, unread: null } : unreadPage(tree.#owner, each))
      tree.#bounds.push(first)
      tree.#size += isRead ? each.keys.length : each.entries
    }
    tree.#changed = new Set()
    return tree
  }

  /** The unread pages that contain or would contain these keys; with each, up to `before` preceding ones. */
  unreadOf(keys?: Iterable<string>, before = 0): Unread[] {
    if (this.#pages.length === 0) return []
    if (!keys) return this.#unreadIn(0, this.#pages.length - 1)
    let unread: Set<Unread> | null = null
    for (const key of keys) {
      const index = pageIndexOf(this.#bounds, key)
      if (!this.#pages[index]!.unread) continue
      unread ??= new Set()
      for (const page of this.#unreadIn(index - before, index)) unread.add(page)
    }
    return unread ? [...unread] : []
  }

  /** The page that contains or would contain this key, if it is unread; else null. */
  unreadAt(key: string): Unread | null {
    return this.#pages.length === 0 ? null : this.#pages[pageIndexOf(this.#bounds, key)]!.unread
  }

  #unreadIn(first: number, last: number): Unread[] {
    return this.#pages.slice(Math.max(0, first), last + 1).flatMap(({ unread }) => unread ?? [])
  }

  find(key: string): { readonly found: boolean; readonly value: V | undefined } {
    if (this.#pages.length === 0) return { found: false, value: undefined }
    const page = this.#read(pageIndexOf(this.#bounds, key))
    const at = lowerBound(page.keys, key)
    return page.keys[at] === key ? { found: true, value: page.values[at] } : { found: false, value: undefined }
  }

  get(key: string): V | undefined {
    if (this.#pages.length === 0) return undefined
    const page = this.#read(pageIndexOf(this.#bounds, key))
    const at = lowerBound(page.keys, key)
    return page.keys[at] === key ? page.values[at] : undefined
  }

  set(key: string, value: V): void {
    if (this.#pages.length === 0) {
      this.#pages.push({ owner: this.#owner, keys: [key], values: [value], stored: undefined, unread: null })
      this.#bounds.push(key)
      this.#noteAdded(key)
      return
    }
    const index = pageIndexOf(this.#bounds, key)
    const held = this.#read(index)
    const at = lowerBound(held.keys, key)
    if (held.keys[at] === key) {
      // Setting the same primitive changes nothing; the same object may have changed inside, so it counts as a change.
      if (Object.is(held.values[at], value) && !isObject(value)) return
      this.#own(index).values[at] = value
      this.#note(key)
      return
    }
    const page = this.#own(index)
    insert(page.keys, at, key)
    insert(page.values, at, value)
    this.#noteAdded(key)
    if (page.keys.length > pageEntriesMax) this.#split(index)
  }

  delete(key: string): boolean {
    if (this.#pages.length === 0) return false
    const index = pageIndexOf(this.#bounds, key)
    const at = lowerBound(this.#read(index).keys, key)
    if (this.#pages[index]!.keys[at] !== key) return false
    const page = this.#own(index)
    page.keys.splice(at, 1)
    page.values.splice(at, 1)
    this.#size -= 1
    this.#version += 1
    this.#note(key)
    if (page.keys.length < pageEntriesMin) this.#shrink(index)
    return true
  }

  clear(): void {
    if (this.#size === 0) return
    this.#pages = []
    this.#bounds = []
    this.#size = 0
    this.#version += 1
    this.#changed = null
  }

  /** First position whose key is not below `key`; the page index may be one past the last page. */
  seek(key: string): Position {
    if (this.#pages.length === 0) return { page: 0, at: 0 }
    const page = pageIndexOf(this.#bounds, key)
    const at = lowerBound(this.#read(page).keys, key)
    return at < this.#pages[page]!.keys.length ? { page, at } : { page: page + 1, at: 0 }
  }

  get pageCount(): number {
    return this.#pages.length
  }

  /** `ahead`: if the page is unread, this many following pages (preceding, if negative) are requested with it. */
  page(index: number, ahead = 0): Page<V> | undefined {
    const page = this.#pages[index]
    if (page?.unread) throw new UnreadPages(this.#unreadIn(index + Math.min(0, ahead), index + Math.max(0, ahead)))
    return page
  }

  /** Returns a frozen view. From here on every page is copied before it is written. */
  snapshot(): TreeSnapshot<V> {
    this.#owner = { owner: true }
    return { pages: this.#pages.slice(), bounds: this.#bounds.slice(), size: this.#size }
  }

  /** Another tree with the same contents; changes of one do not affect the other. */
  fork(): KeyedTree<V> {
    const view = this.snapshot()
    const tree = new KeyedTree<V>()
    tree.#pages = view.pages.slice()
    tree.#bounds = view.bounds.slice()
    tree.#size = view.size
    return tree
  }

  /** Returns the keys changed since the last call and starts over. Null: too many to list, or not counted. */
  takeChanged(): ReadonlySet<string> | null {
    const changed = this.#changed
    this.#changed = new Set()
    return changed
  }

  /** Takes back keys whose capture did not reach a checkpoint. */
  returnChanged(changed: ReadonlySet<string> | null): void {
    if (changed === null || this.#changed === null) {
      this.#changed = null
      return
    }
    for (const key of changed) this.#note(key)
  }

  #read(index: number): Page<V> {
    const page = this.#pages[index]!
    if (page.unread) throw new UnreadPages([page.unread])
    return page
  }

  #own(index: number): Page<V> {
    const page = this.#pages[index]!
    if (page.owner === this.#owner) {
      page.stored = undefined
      return page
    }
    const copy: Page<V> = {
      owner: this.#owner,
      keys: page.keys.slice(),
      values: page.values.slice(),
      stored: undefined,
      unread: null,
    }
    this.#pages[index] = copy
    return copy
  }

  #noteAdded(key: string): void {
    this.#size += 1
    this.#version += 1
    this.#note(key)
  }

  #note(key: string): void {
    if (this.#changed === null) return
    this.#changed.add(key)
    // With more than half of all keys, a list would cost more than writing the pages: stop counting.
    if (this.#changed.size > 4096 && this.#changed.size > this.#size / 2) this.#changed = null
  }

  #split(index: number): void {
    const page = this.#pages[index]!
    // Keys that arrive in order would leave half-empty pages: at the end, only the newest entry moves to the new page.
    const isLast = index === this.#pages.length - 1
    const middle = isLast ? page.keys.length - 1 : page.keys.length >> 1
    const keys = page.keys.splice(middle)
    const values = page.values.splice(middle)
    this.#pages.splice(index + 1, 0, { owner: this.#owner, keys, values, stored: undefined, unread: null })
    this.#bounds.splice(index + 1, 0, keys[0]!)
    this.#version += 1
  }

  #shrink(index: number): void {
    const page = this.#pages[index]!
    if (page.keys.length === 0) {
      this.#pages.splice(index, 1)
      this.#bounds.splice(index, 1)
      return
    }
    const left = index > 0 ? index - 1 : index
    const next = this.#pages[left + 1]
    // An unread neighbour is not merged: small pages cost little, and this method cannot wait.
    if (next === undefined || next.unread || this.#pages[left]!.unread) return
    if (this.#pages[left]!.keys.length + next.keys.length > pageEntriesMax / 2) return
    const joined = this.#own(left)
    for (const key of next.keys) joined.keys.push(key)
    for (const value of next.values) joined.values.push(value)
    this.#pages.splice(left + 1, 1)
    this.#bounds.splice(left + 1, 1)
  }
}

export interface Position {
  readonly page: number
  readonly at: number
}

/** The page that contains or would contain the key. */
export function pageIndexOf(bounds: readonly string[], key: string): number {
  const end = bounds.length
  // Keys that arrive in order belong to the last page: check it first.
  if (end > 1 && bounds[end - 1]! <= key) return end - 1
  return firstIndex(1, end, (at) => bounds[at]! > key) - 1
}

export function lowerBound(keys: readonly string[], key: string): number {
  const end = keys.length
  if (end > 0 && keys[end - 1]! < key) return end
  return firstIndex(0, end, (at) => keys[at]! >= key)
}

function insert<T>(items: T[], at: number, item: T): void {
  if (at === items.length) items.push(item)
  else items.splice(at, 0, item)
}

function isObject(value: unknown): boolean {
  return (typeof value === 'object' && value !== null) || typeof value === 'function'
}
