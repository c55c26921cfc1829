// Hit and miss counts of build tools and of this process's memos since the server started, for metrics and people.

import type { EngineEvents, Events } from '../engine/base/events.ts'
import type { Metrics } from './metrics.ts'

export interface Lookups {
  /** turbo, nx, or plain (Bazel, ccache and similar tools). */
  readonly door: string
  readonly hits: number
  readonly misses: number
}

export interface MemoLookups {
  readonly memo: string
  readonly hits: number
  readonly misses: number
  /** The most recent misses, newest first. */
  readonly missed: readonly MemoMiss[]
}

export interface MemoMiss {
  readonly at: number
  /** The reason as text, as `explain` reports it. */
  readonly why: string
}

interface Miss {
  readonly at: number
  readonly ask: () => Promise<string>
  /** Computed once, on the first read. */
  why: Promise<string> | null
}

const missesKept = 20

interface Counted {
  hits: number
  misses: number
}

export class CacheLookups {
  readonly #metrics: Metrics
  readonly #byDoor = new Map<string, Counted>()
  readonly #byMemo = new Map<string, Counted>()
  readonly #missed = new Map<string, Miss[]>()
  readonly #now: () => number
  /** Stops listening to the memos. */
  readonly close: () => void

  constructor(metrics: Metrics, events: Events, now: () => number) {
    this.#metrics = metrics
    this.#now = now
    this.close = events.on('recalled', (event) => this.#recalled(event))
  }

  note(door: string, isHit: boolean): void {
    countIn(this.#byDoor, door, isHit)
    this.#metrics.add('reprise_cache_lookups_total', 1, { door, outcome: isHit ? 'hit' : 'miss' })
  }

  list(): Lookups[] {
    return [...this.#byDoor].map(([door, counted]) => ({ door, ...counted }))
  }

  async memos(): Promise<MemoLookups[]> {
    const all: MemoLookups[] = []
    for (const [memo, counted] of this.#byMemo) {
      const missed: MemoMiss[] = []
      for (const miss of this.#missed.get(memo) ?? []) {
        miss.why ??= miss.ask().catch((error) => `unknown: ${(error as Error).message}`)
        missed.push({ at: miss.at, why: await miss.why })
      }
      all.push({ memo, ...counted, missed })
    }
    return all
  }

  #recalled({ memo, from, why }: EngineEvents['recalled']): void {
    countIn(this.#byMemo, memo, from !== 'computed' && from !== 'failed')
    if (why) this.#missed.set(memo, [{ at: this.#now(), ask: why, why: null }, ...this.#lastOf(memo)])
    this.#metrics.add('reprise_memo_lookups_total', 1, { memo, result: from })
  }

  #lastOf(memo: string): readonly Miss[] {
    return (this.#missed.get(memo) ?? []).slice(0, missesKept - 1)
  }
}

function countIn(all: Map<string, Counted>, name: string, isHit: boolean): void {
  const counted = all.get(name) ?? { hits: 0, misses: 0 }
  all.set(name, counted)
  if (isHit) counted.hits += 1
  else counted.misses += 1
}
