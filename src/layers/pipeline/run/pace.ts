// Limits the work of a flow per turn of the event loop, in favour of connections, timers and other flows of this process.
// Batches shrink when functions are slow, so that no turn takes much longer than a slice. While sinks of this process write to
// the store, which takes a turn per statement, all flows together use half of the time and leave the other half to the sinks.

import type { Clock } from '../../../core/store/ports.ts'

const batchRecords = 512
const sliceMs = 4

/** State shared by the flows of one process. */
export class Neighbours {
  flows = 0
  /** The number of sinks that write to the store now. */
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

  /** Starts a slice after other work had a turn. */
  begin(): void {
    this.#sinceMs = this.#clock.elapsed()
    this.#computedMs = 0
  }

  /** `take` reads at most this many records, passes them through the operators, and returns their number. */
  step(take: (most: number) => number): number {
    const startedMs = this.#clock.elapsed()
    const count = take(this.#records)
    const ms = this.#clock.elapsed() - startedMs
    this.#computedMs += ms
    if (count <= 0) return count
    // A single slow batch may be caused by garbage collection: the size then grows back at once.
    if (ms > 2 * sliceMs) this.#records = Math.max(1, Math.floor((Math.min(count, this.#records) * sliceMs) / ms))
    else if (count >= this.#records && ms < sliceMs) this.#records = Math.min(batchRecords, 2 * this.#records)
    return count
  }

  /** The time to rest now; null: continue; 0: for one turn of the event loop. */
  restMs(): number | null {
    if (this.#clock.elapsed() - this.#sinceMs < sliceMs) return null
    const { flows, writing } = this.#neighbours
    // Each of n flows computes for one slice and pauses for 2n - 1 slices, so all of them together compute half of the time.
    return writing === 0 ? 0 : Math.ceil(this.#computedMs * (2 * Math.max(1, flows) - 1))
  }
}
