// Early results of windows: every so often by the clock, what has changed since the last time. It is an index over state and
// is not stored: after a restart every key counts as changed, so a result may come early once more, never too seldom.

import type { PipelineKey } from '../../../core/key-groups.ts'

export class EarlyKeys<Where> {
  readonly #everyMs: number | null
  #changed = new Map<Where, Set<PipelineKey>>()
  #givenAt = Number.NEGATIVE_INFINITY

  /** Null: results come when windows are final, and not before. */
  constructor(everyMs: number | null) {
    this.#everyMs = everyMs
  }

  note(where: Where, key: PipelineKey): void {
    if (this.#everyMs === null) return
    const keys = this.#changed.get(where)
    if (keys) keys.add(key)
    else this.#changed.set(where, new Set([key]))
  }

  /** What is due now; empty most of the time. */
  take(now: number): ReadonlyMap<Where, ReadonlySet<PipelineKey>> {
    if (this.#everyMs === null || this.#changed.size === 0) return new Map()
    // The first one waits as long as the others.
    if (this.#givenAt === Number.NEGATIVE_INFINITY) this.#givenAt = now
    if (now - this.#givenAt < this.#everyMs) return new Map()
    this.#givenAt = now
    const changed = this.#changed
    this.#changed = new Map()
    return changed
  }
}
