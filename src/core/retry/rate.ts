// A strict rate limit: at most `max` starts in any window of the given length. Processes that share a job divide `max`
// into whole starts by the unfinished shards they own, so together they respect the limit without coordination.

import { type Duration, toMs } from '../duration.ts'
import { RepriseError } from '../errors.ts'
import { checkCount, checkOptions, namesOf } from '../options.ts'

export interface RatePolicy {
  /** At most this many starts… */
  readonly max: number
  /** …within any span of this length. */
  readonly per: Duration
}

export interface RateSettings {
  readonly max: number
  readonly perMs: number
}

const known = namesOf<RatePolicy>()('max per')

export function resolveRate(policy: RatePolicy): RateSettings {
  checkOptions('rate', policy, known)
  const perMs = toMs(policy.per, 'rate.per')
  checkCount('rate.max', policy.max)
  if (perMs <= 0) throw new RepriseError('INVALID_ARGUMENT', 'rate.per must be above 0', { per: String(policy.per) })
  return { max: policy.max, perMs }
}

export class RateLimiter {
  readonly #perMs: number
  #allowance = 0
  /** Times of past starts, oldest first. */
  #starts: number[] = []

  constructor(perMs: number) {
    this.#perMs = perMs
  }

  /**
   * Sets how many starts per window this process may make. Added starts are treated as used at `usedAt`: their previous owner may
   * use them until then. Null: they had no previous owner.
   */
  allow(count: number, usedAt: number | null): void {
    if (usedAt !== null) for (let gained = this.#allowance; gained < count; gained++) this.#note(usedAt)
    this.#allowance = count
  }

  /** 0: the call is counted as started. Otherwise: try again after this many ms. */
  tryStart(now: number): number {
    const pause = this.pauseMs(now)
    if (pause === 0) this.#note(now)
    return pause
  }

  /** 0: a start is allowed. Otherwise: try again after this many ms. */
  pauseMs(now: number): number {
    if (this.#allowance === 0) return this.#perMs
    while (this.#starts.length > 0 && this.#starts[0]! <= now - this.#perMs) this.#starts.shift()
    if (this.#starts.length < this.#allowance) return 0
    return Math.max(1, this.#starts[this.#starts.length - this.#allowance]! + this.#perMs - now)
  }

  /** Inserts in order; `at` is nearly always the latest time. */
  #note(at: number): void {
    let place = this.#starts.length
    while (place > 0 && this.#starts[place - 1]! > at) place -= 1
    this.#starts.splice(place, 0, at)
  }
}

/** The share of one of `shards` unfinished shards; the shares of all of them add up to `max`. */
export function allotment(max: number, rank: number, shards: number): number {
  return Math.floor((max * (rank + 1)) / shards) - Math.floor((max * rank) / shards)
}
