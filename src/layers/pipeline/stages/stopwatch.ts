// Measures how long a condition lasted in total.

import type { Clock } from '../../../core/store/ports.ts'

export class Stopwatch {
  readonly #clock: Pick<Clock, 'elapsed'>
  #since: number | null = null
  #ms = 0

  constructor(clock: Pick<Clock, 'elapsed'>) {
    this.#clock = clock
  }

  get ms(): number {
    return this.#ms + (this.#since === null ? 0 : this.#clock.elapsed() - this.#since)
  }

  /** Has no effect while it runs. */
  begin(): void {
    this.#since ??= this.#clock.elapsed()
  }

  end(): void {
    this.#ms = this.ms
    this.#since = null
  }
}
