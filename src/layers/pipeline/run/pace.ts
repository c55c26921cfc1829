// How much a flow does before others have a turn of the event loop: connections, timers, other flows of this process. Batches
// become smaller where functions take long, so that no turn takes much longer than a slice. While sinks of this process write
// into the store, which takes a turn per statement, flows together take half of the time and leave the other half to them.

import type { Clock } from '../../../core/store/ports.ts'

const batchRecords = 512
const sliceMs = 4

/** What the flows of one process have in common. */
export class Neighbours {
  flows = 0
  /** Sinks that write into the store at this moment. */
  writing = 0

  async whileWriting<T>(write: () => Promise<T>): Promise<T> {
    this.writing += 1
    try {
      return await write()
    } finally {
      this.writing -= 1
    }
  }
}

export class Pace {
  readonly #clock: Pick<Clock, 'elapsed'>
  readonly #neighbours: Neighbours
  #records = batchRecords
  #sinceMs = 0
  #computedMs = 0

  constructor(clock: Pick<Clock, 'elapsed'>, neighbours: Neighbours) {
    this.#clock = clock
    this.#neighbours = neighbours
  }

  /** Others had their turn. */
  begin(): void {
    this.#sinceMs = this.#clock.elapsed()
    this.#computedMs = 0
  }

  /** `take` reads at most so many records and lets them through the operators; it says how many there were. */
  step(take: (most: number) => number): number {
    const startedMs = this.#clock.elapsed()
    const count = take(this.#records)
    const ms = this.#clock.elapsed() - startedMs
    this.#computedMs += ms
    if (count <= 0) return count
    // One slow batch in between may be the garbage collector's: it grows again at once.
    if (ms > 2 * sliceMs) this.#records = Math.max(1, Math.floor((Math.min(count, this.#records) * sliceMs) / ms))
    else if (count >= this.#records && ms < sliceMs) this.#records = Math.min(batchRecords, 2 * this.#records)
    return count
  }

  /** How long to rest now; null: it may go on; 0: for a turn of the event loop. */
  restMs(): number | null {
    if (this.#clock.elapsed() - this.#sinceMs < sliceMs) return null
    const { flows, writing } = this.#neighbours
    // Each of n flows computes for a slice and rests for 2n - 1 of them: then all of them together compute half of the time.
    return writing === 0 ? 0 : Math.ceil(this.#computedMs * (2 * Math.max(1, flows) - 1))
  }
}
