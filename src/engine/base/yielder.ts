// Long work in slices: synchronous work calls the yielder regularly, and the event loop runs other work once a slice
// has taken some milliseconds. A store that answers synchronously never yields by itself.

import type { Clock } from '../../core/store/ports.ts'

const sliceMs = 4

export class Yielder {
  readonly #clock: Clock
  #since: number
  /** Callers that wait for the next slice, in order. */
  #waiting: (() => void)[] = []

  constructor(clock: Clock) {
    this.#clock = clock
    this.#since = clock.elapsed()
  }

  /** Check this first where each piece of work is small: a promise per piece would cost more than the piece. */
  get isDue(): boolean {
    return this.#clock.elapsed() - this.#since >= sliceMs
  }

  /** Callers that share a yielder resume one after another; once the slice is over, the rest wait for the next one. */
  take(): Promise<void> {
    if (!this.isDue) return Promise.resolve()
    return new Promise((resolve) => {
      if (this.#waiting.push(resolve) === 1) this.#nextTurn()
    })
  }

  #nextTurn(): void {
    this.#clock.soon(() => void this.#resume())
  }

  async #resume(): Promise<void> {
    this.#since = this.#clock.elapsed()
    let next = 0
    do {
      this.#waiting[next++]!()
      // The resumed caller has done its synchronous work when this continues.
      await undefined
    } while (next < this.#waiting.length && !this.isDue)
    this.#waiting = this.#waiting.slice(next)
    if (this.#waiting.length > 0) this.#nextTurn()
  }
}

// The current iteration of the event loop, as a number. An event in a later iteration than another was not caused by that
// one alone.

let turn = 0
let isCounting = false
const later = setImmediate

/** Schedules at most one immediate per iteration. */
export function thisTick(): number {
  if (!isCounting) {
    isCounting = true
    later(next)
  }
  return turn
}

function next(): void {
  isCounting = false
  turn += 1
}
