// How far a source is settled: one mark per passed position, with the unsettled items after it. A position is reached
// when no item before it is outstanding.

import { assert } from '../../core/assert.ts'
import type { Cursor } from './entries.ts'

/** A position in the source, passed when every item read before it is settled. */
export interface Mark {
  readonly cursor: Cursor
  outstanding: number
}

/** An item after a mark; null for an item that does not come from the source. */
export interface Marked {
  readonly mark: Mark | null
}

export class Marks {
  #passed: Mark[] = []
  #tip: Mark
  #written: Cursor | null

  /** `written` is the position that history has. */
  constructor(written: Cursor | null) {
    this.#written = written
    this.#tip = markAt(written)
  }

  /** A new pass over the source begins at this cursor. */
  begin(start: Cursor | null, written: Cursor | null): void {
    this.#passed = []
    this.#tip = markAt(start)
    this.#written = written
  }

  /** The mark for items that are read from now on. */
  get tip(): Mark {
    return this.#tip
  }

  /** The source reached a position. */
  pass(cursor: Cursor): void {
    this.#passed.push(this.#tip)
    this.#tip = { cursor, outstanding: 0 }
  }

  take({ mark }: Marked): void {
    if (mark) mark.outstanding += 1
  }

  /** The furthest position without unsettled items before it once `items` are settled; null if it is not new. */
  reachedWith(items: readonly Marked[]): Cursor | null {
    if (this.#passed.length === 0) return null
    for (const { mark } of items) if (mark) mark.outstanding -= 1
    const first = this.#passed.find((mark) => mark.outstanding > 0) ?? this.#tip
    for (const { mark } of items) if (mark) mark.outstanding += 1
    return first === this.#passed[0] || first.cursor === this.#written ? null : first.cursor
  }

  /**
   * The items are settled and the cursor is written, durably: a concurrent write must not build on a commit that may
   * fail.
   */
  settle(items: readonly Marked[], cursor: Cursor | null): void {
    for (const { mark } of items) {
      if (!mark) continue
      assert(mark.outstanding > 0, 'an item is settled once')
      mark.outstanding -= 1
    }
    if (!cursor) return
    this.#written = cursor
    const at = [...this.#passed, this.#tip].findIndex((mark) => mark.cursor === cursor)
    if (at > 0) this.#passed.splice(0, at)
  }
}

function markAt(cursor: Cursor | null): Mark {
  return { cursor: cursor ?? { position: undefined, ordinal: 0 }, outstanding: 0 }
}
