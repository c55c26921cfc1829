// The newest changes of a kind, in memory, bounded in number and size. Watchers that keep up read them here and share the
// values. A watcher that falls behind reads history instead, at its own pace.

import { assert } from '../../../core/assert.ts'
import { firstIndex } from '../../../core/binary-search.ts'
import { roughBytes } from './json.ts'
import type { Change } from './state.ts'

export interface WindowBounds {
  readonly changes: number
  readonly bytes: number
}

export class ChangeWindow {
  readonly #bounds: WindowBounds
  #changes: ({ readonly change: Change; readonly bytes: number } | null)[] = []
  #first = 0
  #bytes = 0
  /** Every change after this revision is here. */
  #from: number
  #to: number

  constructor(at: number, bounds: WindowBounds) {
    this.#bounds = bounds
    this.#from = at
    this.#to = at
  }

  /** Every change up to this revision was added. */
  get revision(): number {
    return this.#to
  }

  get size(): number {
    return this.#changes.length - this.#first
  }

  /** History has advanced to `revision`; `change` is null if the entry concerned no object. */
  add(revision: number, change: Change | null): void {
    assert(revision > this.#to, 'a window moves forward')
    this.#to = revision
    if (!change) return
    const bytes = roughBytes(change.object)
    this.#changes.push({ change, bytes })
    this.#bytes += bytes
    while (this.size > this.#bounds.changes || (this.#bytes > this.#bounds.bytes && this.size > 0)) this.#dropOldest()
  }

  /** At most `limit` changes after a revision; null: some of them are no longer here. */
  after(revision: number, limit: number): readonly Change[] | null {
    if (revision < this.#from) return null
    const isAfter = (at: number) => this.#changes[at]!.change.revision > revision
    const start = firstIndex(this.#first, this.#changes.length, isAfter)
    return this.#changes.slice(start, start + limit).map((held) => held!.change)
  }

  #dropOldest(): void {
    const { change, bytes } = this.#changes[this.#first]!
    this.#changes[this.#first++] = null
    this.#bytes -= bytes
    this.#from = change.revision
    if (this.#first < 1024 || this.#first * 2 < this.#changes.length) return
    this.#changes = this.#changes.slice(this.#first)
    this.#first = 0
  }
}
