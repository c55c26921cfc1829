// Long work in slices: whoever works without waiting for anything asks now and then, and lets others have their turn of the
// event loop once a slice has taken some milliseconds. A store that answers at once gives nobody a turn by itself.

import type { Clock } from '../../core/store/ports.ts'

const sliceMs = 4

export class Yielder {
  readonly #clock: Clock
  #since: number
  /** Who waits for the next slice, in their order. */
  #waiting: (() => void)[] = []

  constructor(clock: Clock) {
    this.#clock = clock
    this.#since = clock.elapsed()
  }

  /** Worth asking first where each piece of work is small: a promise per piece would cost more than the piece. */
  get isDue(): boolean {
    return this.#clock.elapsed() - this.#since >= sliceMs
  }

  /** Where many share one breath, each is let go on after the one before it, and the rest wait once the slice is over. */
  take(): Promise<void> {
    if (!this.isDue) return Promise.resolve()
    return new Promise((resolve) => {
      if (this.#waiting.push(resolve) === 1) this.#nextTurn()
    })
  }

  #nextTurn(): void {
    this.#clock.soon(() => void this.#letGoOn())
  }

  async #letGoOn(): Promise<void> {
    this.#since = this.#clock.elapsed()
    let next = 0
    do {
      this.#waiting[next++]!()
      // What it does without waiting is done when this goes on.
      await undefined
    } while (next < this.#waiting.length && !this.isDue)
    this.#waiting = this.#waiting.slice(next)
    if (this.#waiting.length > 0) this.#nextTurn()
  }
}
