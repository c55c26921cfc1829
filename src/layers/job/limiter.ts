// A strict rate limit: in any window of the given length at most `max` starts. Processes that share a job divide it in
// whole starts by the unfinished shards they own, so together they stay within it without talking to each other.

export class RateLimiter {
  readonly #perMs: number
  #allowance = 0
  /** Times of past starts, oldest first. */
  #starts: number[] = []

  constructor(perMs: number) {
    this.#perMs = perMs
  }

  /**
   * How many starts a window this process may make from now on. What it gains is taken as used up until now: whoever had
   * it before may have used it. `isFresh`: nobody had it.
   */
  allow(count: number, now: number, isFresh: boolean): void {
    if (!isFresh) for (let gained = this.#allowance; gained < count; gained++) this.#starts.push(now)
    this.#allowance = count
  }

  /** 0: counted as started. Otherwise: ask again after so many ms. */
  tryStart(now: number): number {
    if (this.#allowance === 0) return this.#perMs
    while (this.#starts.length > 0 && this.#starts[0]! <= now - this.#perMs) this.#starts.shift()
    if (this.#starts.length < this.#allowance) {
      this.#starts.push(now)
      return 0
    }
    return Math.max(1, this.#starts[this.#starts.length - this.#allowance]! + this.#perMs - now)
  }
}

/** The starts of one of `shards` unfinished shards; over all of them they add up to `max`. */
export function allotment(max: number, rank: number, shards: number): number {
  return Math.floor((max * (rank + 1)) / shards) - Math.floor((max * rank) / shards)
}
