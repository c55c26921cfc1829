// The computing time of each part of a flow. Parts call each other, so the time of a nested call counts for the called part and
// not for its caller.

import type { Output } from '../batch.ts'

export interface Counts {
  records: number
  busyMs: number
  /** The newest watermark of each input. */
  readonly watermarks: Map<Output, number>
}

export function newCounts(): Counts {
  return { records: 0, busyMs: 0, watermarks: new Map() }
}

/** The lowest watermark of the inputs; null: none arrived yet, or none will arrive any longer. */
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

  /** Counts the time of `work` for this part, except for time spent in other parts. */
  spend<T>(counts: Counts, work: () => T): T {
    this.#begin(counts)
    try {
      return work()
    } finally {
      this.#end()
    }
  }

  /** Wraps the input of a part with the count. */
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
