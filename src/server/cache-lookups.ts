// How often build tools found what they asked for, since this server started: for the figures and for people.

import type { Metrics } from './metrics.ts'

export interface Lookups {
  /** turbo, nx, or plain: the cache of Bazel, ccache and the like. */
  readonly door: string
  readonly hits: number
  readonly misses: number
}

export class CacheLookups {
  readonly #metrics: Metrics
  readonly #byDoor = new Map<string, { hits: number; misses: number }>()

  constructor(metrics: Metrics) {
    this.#metrics = metrics
  }

  note(door: string, isHit: boolean): void {
    const counted = this.#byDoor.get(door) ?? { hits: 0, misses: 0 }
    this.#byDoor.set(door, counted)
    if (isHit) counted.hits += 1
    else counted.misses += 1
    this.#metrics.add('reprise_cache_lookups_total', 1, { door, outcome: isHit ? 'hit' : 'miss' })
  }

  list(): Lookups[] {
    return [...this.#byDoor].map(([door, counted]) => ({ door, ...counted }))
  }
}
