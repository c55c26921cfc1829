// An interruptible sleep: it ends after its time, or as soon as `ring` is called. A ring without a sleeper is kept for
// the next sleep.

import type { Clock } from '../../core/store/ports.ts'

export class Alarm {
  readonly #clock: Clock
  #wakeUp: (() => void) | null = null
  #hasRung = false

  constructor(clock: Clock) {
    this.#clock = clock
  }

  ring(): void {
    if (this.#wakeUp) this.#wakeUp()
    else this.#hasRung = true
  }

  nap(ms: number): Promise<void> {
    if (this.#hasRung) {
      this.#hasRung = false
      return Promise.resolve()
    }
    return new Promise((resolve) => {
      const cancel = this.#clock.after(ms, () => this.#wakeUp?.())
      this.#wakeUp = () => {
        cancel()
        this.#wakeUp = null
        resolve()
      }
    })
  }
}
