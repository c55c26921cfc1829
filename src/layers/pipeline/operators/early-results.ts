// Early results of windows: at a clock interval, the windows that changed since the last time. This index over the state is not
// stored: after a restart every key counts as changed, so an early result may be repeated but is never missed.

import type { PipelineKey } from '../../../core/key-groups.ts'

export class EarlyKeys<Where> {
  readonly #everyMs: number | null
  #changed = new Map<Where, Set<PipelineKey>>()
  #givenAt = Number.NEGATIVE_INFINITY

  /** Null: no early results; windows emit only when they are final. */
  constructor(everyMs: number | null) {
    this.#everyMs = everyMs
  }

  note(where: Where, key: PipelineKey): void {
    if (this.#everyMs === null) return
    const keys = this.#changed.get(where)
    if (keys) keys.add(key)
    else this.#changed.set(where, new Set([key]))
  }

  /** Returns the changed windows if early results are due now; usually empty. */
  take(now: number): ReadonlyMap<Where, ReadonlySet<PipelineKey>> {
    if (this.#everyMs === null || this.#changed.size === 0) return new Map()
    // The first early results wait a full interval too.
    if (this.#givenAt === Number.NEGATIVE_INFINITY) this.#givenAt = now
    if (now - this.#givenAt < this.#everyMs) return new Map()
    this.#givenAt = now
    const changed = this.#changed
    this.#changed = new Map()
    return changed
  }
}
