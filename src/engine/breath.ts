// Long work in slices: whoever works without waiting for anything asks now and then, and lets others have their turn of the
// event loop once a slice has taken some milliseconds. A store that answers at once gives nobody a turn by itself.

import type { Clock } from '../core/ports.ts'

const sliceMs = 4

export class Breath {
  readonly #clock: Clock
  #since: number

  constructor(clock: Clock) {
    this.#clock = clock
    this.#since = clock.elapsed()
  }

  /** Worth asking first where each piece of work is small: a promise per piece would cost more than the piece. */
  get isDue(): boolean {
    return this.#clock.elapsed() - this.#since >= sliceMs
  }

  async take(): Promise<void> {
    if (!this.isDue) return
    await new Promise<void>((resolve) => this.#clock.soon(resolve))
    this.#since = this.#clock.elapsed()
  }
}
