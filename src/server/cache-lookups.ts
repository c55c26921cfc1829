// How often build tools, and the memos of this process, found what they asked for, since this server started: for the figures
// and for people.

import type { EngineEvents, Events } from '../engine/events.ts'
import type { Metrics } from './metrics.ts'

export interface Lookups {
  /** turbo, nx, or plain: the cache of Bazel, ccache and the like. */
  readonly door: string
  readonly hits: number
  readonly misses: number
}

export interface MemoLookups {
  readonly memo: string
  readonly hits: number
  readonly misses: number
}

interface Counted {
  hits: number
  misses: number
}

export class CacheLookups {
  readonly #metrics: Metrics
  readonly #byDoor = new Map<string, Counted>()
  readonly #byMemo = new Map<string, Counted>()
  /** Hears no more of memos. */
  readonly close: () => void

  constructor(metrics: Metrics, events: Events) {
    this.#metrics = metrics
    this.close = events.on('recalled', (told) => this.#recalled(told))
  }

  note(door: string, isHit: boolean): void {
    countIn(this.#byDoor, door, isHit)
    this.#metrics.add('reprise_cache_lookups_total', 1, { door, outcome: isHit ? 'hit' : 'miss' })
  }

  list(): Lookups[] {
    return [...this.#byDoor].map(([door, counted]) => ({ door, ...counted }))
  }

  memos(): MemoLookups[] {
    return [...this.#byMemo].map(([memo, counted]) => ({ memo, ...counted }))
  }

  #recalled({ memo, from }: EngineEvents['recalled']): void {
    countIn(this.#byMemo, memo, from !== 'computed' && from !== 'failed')
    this.#metrics.add('reprise_memo_lookups_total', 1, { memo, result: from })
  }
}

function countIn(all: Map<string, Counted>, name: string, isHit: boolean): void {
  const counted = all.get(name) ?? { hits: 0, misses: 0 }
  all.set(name, counted)
  if (isHit) counted.hits += 1
  else counted.misses += 1
}
