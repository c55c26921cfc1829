// Counts the searchable attributes of an open timeline, so that one too many is refused when it is written.

import type { Attribute } from '../../core/store/ports.ts'
import { type AttributeLimits, checkAttributes, tooManyAttributes } from '../../core/store/shapes.ts'

type Changes = Readonly<Record<string, Attribute | null | undefined>>

export class AttributeBudget {
  readonly #limits: AttributeLimits
  readonly #names: Set<string>

  constructor(limits: AttributeLimits, attributes: Changes = {}) {
    this.#limits = limits
    this.#names = new Set(Object.keys(attributes))
  }

  /** Throws LIMIT_EXCEEDED; otherwise they count as written. */
  take(changes: Changes): void {
    checkAttributes(changes, this.#limits)
    const names = new Set(this.#names)
    for (const [name, value] of Object.entries(changes)) {
      if (value === null) names.delete(name)
      else if (value !== undefined) names.add(name)
    }
    if (names.size > Math.max(this.#limits.attributes, this.#names.size))
      throw tooManyAttributes(names.size, this.#limits)
    this.#names.clear()
    for (const name of names) this.#names.add(name)
  }
}
