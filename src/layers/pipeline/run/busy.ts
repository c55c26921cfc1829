// How long each part of a flow computes. Parts call each other, so the time of a call is that of the caller up to where it calls
// the next one, and again from where that returns.

import type { Output } from '../batch.ts'

export interface Counts {
  records: number
  busyMs: number
  /** The newest watermark of each of its inputs. */
  readonly watermarks: Map<Output, number>
}

export function newCounts(): Counts {
  return { records: 0, busyMs: 0, watermarks: new Map() }
}

/** The lowest of its inputs; null: none came yet, or none will come any more. */
export function watermarkOf({ watermarks }: Counts): number | null {
  const lowest = Math.min(...watermarks.values())
  return Number.isFinite(lowest) ? lowest : null
}

export class Busy {
  readonly #now: () => number
  readonly #under: Counts[] = []
  #since = 0

  constructor(now: () => number) {
    this.#now = now
  }

  /** What this takes is spent by that part, but for what it spends in others. */
  spend<T>(counts: Counts, work: () => T): T {
    this.#begin(counts)
    try {
      return work()
    } finally {
      this.#end()
    }
  }

  /** The input of a part, counted. */
  counted(input: Output, counts: Counts): Output {
    counts.watermarks.set(input, Number.NEGATIVE_INFINITY)
    return {
      batch: (batch) => {
        counts.records += batch.values.length
        this.#begin(counts)
        try {
          input.batch(batch)
        } finally {
          this.#end()
        }
      },
      watermark: (time) => {
        counts.watermarks.set(input, time)
        this.spend(counts, () => input.watermark(time))
      },
      idle: () => input.idle(),
    }
  }

  #begin(counts: Counts): void {
    const now = this.#now()
    const above = this.#under.at(-1)
    if (above) above.busyMs += now - this.#since
    this.#since = now
    this.#under.push(counts)
  }

  #end(): void {
    const now = this.#now()
    this.#under.pop()!.busyMs += now - this.#since
    this.#since = now
  }
}
