// A circuit breaker: after so many failures in a row nothing more is started for a while, then one item is let through as
// a probe. If it succeeds the job goes on, if it fails the pause doubles.

export interface BreakerSettings {
  readonly failures: number
  readonly pauseMs: number
  readonly maxPauseMs: number
}

export class Breaker {
  readonly #settings: BreakerSettings
  #inARow = 0
  #pauseMs: number
  #openUntil: number | null = null
  #isProbing = false

  constructor(settings: BreakerSettings) {
    this.#settings = settings
    this.#pauseMs = settings.pauseMs
  }

  get openUntil(): number | null {
    return this.#openUntil
  }

  /** 0: go. Otherwise: ask again after so many ms. */
  tryStart(now: number): number {
    if (this.#openUntil === null) return 0
    if (now < this.#openUntil) return this.#openUntil - now
    if (this.#isProbing) return 50
    this.#isProbing = true
    return 0
  }

  /** True: it was open and is closed now. */
  succeeded(): boolean {
    this.#inARow = 0
    if (this.#openUntil === null) return false
    this.#openUntil = null
    this.#isProbing = false
    this.#pauseMs = this.#settings.pauseMs
    return true
  }

  /** True: it opened just now, or stays open after a failed probe. */
  failed(now: number): boolean {
    this.#inARow += 1
    if (this.#openUntil !== null) {
      if (!this.#isProbing) return false
      this.#pauseMs = Math.min(this.#settings.maxPauseMs, this.#pauseMs * 2)
    } else if (this.#inARow < this.#settings.failures) return false
    this.#isProbing = false
    this.#openUntil = now + this.#pauseMs
    return true
  }
}
