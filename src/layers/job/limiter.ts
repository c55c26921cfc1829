// A strict rate limit: in any window of the given length at most `max` starts. Processes that share a job divide it by
// the part of the unfinished shards each owns, so together they stay within it without talking to each other.

export class RateLimiter {
  readonly #perMs: number
  readonly #max: number
  #share = 1
  /** Times of past starts, oldest first. */
  #starts: number[] = []

  constructor(max: number, perMs: number) {
    this.#max = max
    this.#perMs = perMs
  }

  /** 0 to 1. */
  setShare(share: number): void {
    this.#share = share
  }

  /** Another process may have used the whole of it until then: start with an empty hand. */
  spentUntil(at: number): void {
    this.#starts = Array.from({ length: this.#max }, () => at)
  }

  /** 0: counted as started. Otherwise: ask again after so many ms. */
  tryStart(now: number): number {
    const allowed = this.#max * this.#share
    if (allowed <= 0) return this.#perMs
    const count = Math.max(1, Math.floor(allowed))
    const windowMs = (this.#perMs * count) / allowed
    while (this.#starts.length > 0 && this.#starts[0]! <= now - windowMs) this.#starts.shift()
    if (this.#starts.length < count) {
      this.#starts.push(now)
      return 0
    }
    return Math.max(1, this.#starts[this.#starts.length - count]! + windowMs - now)
  }
}
