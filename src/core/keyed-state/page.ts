// A page of a Keyed: neighbouring keys with their values, the tree that may write to it, and its stored form. A page may
// exist in the store only; then it can read its entries.

import { assert } from '../assert.ts'
import type { Segment } from '../checkpoint/manifest.ts'

/** Write permission for a page: the tree with the same token may write to it. */
export type Owner = { readonly owner: true }

/** One write of pages for one capture: its lineage of checkpoints, and whether the capture was abandoned. */
export interface PageWrite {
  readonly lineage: object
  isVoid: boolean
}

/** The last stored form of a page. */
export interface StoredPage {
  readonly write: PageWrite
  readonly segments: readonly Segment[]
}

export interface Page<V> {
  readonly owner: Owner
  readonly keys: string[]
  readonly values: V[]
  /** Undefined once the page has changed. */
  stored: StoredPage | undefined
  /** Not null: the entries exist in the store only. */
  unread: Unread | null
}

export interface Unread {
  readonly entries: number
  /** Reads the entries; the page is an ordinary one when it resolves. */
  read(): Promise<void>
}

/** An operation needs pages that were not read yet. Nothing was changed: read them and repeat the operation. */
export class UnreadPages extends Error {
  readonly #pages: readonly Unread[]

  constructor(pages: readonly Unread[]) {
    super('the required pages of a Keyed have not been read yet')
    this.#pages = pages
  }

  read(): Promise<unknown> {
    return Promise.all(this.#pages.map((page) => page.read()))
  }
}

/** Entries of a page in order, or a reference to the page in the store. */
export type LoadedPage<V> =
  | { readonly keys: string[]; readonly values: V[]; readonly stored: StoredPage | undefined }
  | { readonly first: string; readonly entries: number; readonly stored: StoredPage; read(): Promise<PageEntries<V>> }

export interface PageEntries<V> {
  readonly keys: readonly string[]
  readonly values: readonly V[]
}

export function unreadPage<V>(owner: Owner, stored: Extract<LoadedPage<V>, { readonly first: string }>): Page<V> {
  const page: Page<V> = { owner, keys: [], values: [], stored: stored.stored, unread: null }
  const fill = ({ keys, values }: PageEntries<V>) => {
    assert(keys.length === stored.entries && keys[0] === stored.first, 'a page has the entries that it is known for')
    for (const key of keys) page.keys.push(key)
    for (const value of values) page.values.push(value)
    page.unread = null
  }
  let reading: Promise<void> | null = null
  const read = () => {
    reading ??= stored
      .read()
      .then(fill)
      .finally(() => {
        reading = null
      })
    return reading
  }
  page.unread = { entries: stored.entries, read }
  return page
}
