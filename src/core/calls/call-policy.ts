// What bounds calls to the outside, under the same names wherever something is called: how a failed one is tried again, how
// long one may take, how many may start, and when none is made for a while.

import { type Duration, toMs } from '../duration.ts'
import { Breaker, type BreakerPolicy, resolveBreaker } from './breaker.ts'
import { RateLimiter, type RatePolicy, resolveRate } from './rate.ts'
import { isFault, type ResolvedRetry, type RetryPolicy, resolveRetry } from './retry.ts'

export interface CallPolicy {
  /** Which failures are tried again, how often, and after what pause. */
  readonly retry?: RetryPolicy
  /** Longest time for one attempt. Its signal is aborted then, and it counts as failed. */
  readonly timeout?: Duration
  /** How many may start within a span of time. */
  readonly rate?: RatePolicy
  /** After so many failures in a row: make no call for a while, then let one through as a probe. True: the usual settings. */
  readonly breaker?: BreakerPolicy | boolean
}

export const callPolicyNames = ['retry', 'timeout', 'rate', 'breaker'] as const

/** The breaker and the rate limit of one kind of call, shared by everyone in this process who makes it. */
export class CallGate {
  readonly #breaker: Breaker | null
  readonly #limiter: RateLimiter | null

  constructor(policy: Pick<CallPolicy, 'rate' | 'breaker'>) {
    const breaker = resolveBreaker(policy.breaker ?? false)
    this.#breaker = breaker && new Breaker(breaker)
    const rate = policy.rate ? resolveRate(policy.rate) : null
    this.#limiter = rate && new RateLimiter(rate.perMs)
    if (rate) this.#limiter!.allow(rate.max, null)
  }

  /** 0: go. Otherwise: ask again after so many ms. `call` is the same object until it has left. */
  breakerPauseMs(now: number, call: object): number {
    return this.#breaker?.tryStart(now, call) ?? 0
  }

  /** 0: go, it is counted as started. Otherwise: ask again after so many ms. */
  ratePauseMs(now: number): number {
    return this.#limiter?.tryStart(now) ?? 0
  }

  /** Both, the breaker first. */
  pauseMs(now: number, call: object): number {
    return this.breakerPauseMs(now, call) || this.ratePauseMs(now)
  }

  succeeded(): void {
    this.#breaker?.succeeded()
  }

  failed(retry: ResolvedRetry, error: unknown, now: number, call: object): void {
    if (isFault(retry, error)) this.#breaker?.failed(now, call)
  }

  /** The call has ended; if it was given up, that says nothing about the other side. */
  left(call: object): void {
    this.#breaker?.left(call)
  }
}

/** Throws on what is not right, for definitions that are made long before they are used. */
export function checkCallPolicy(policy: CallPolicy): void {
  resolveRetry(policy.retry)
  if (policy.timeout !== undefined) toMs(policy.timeout, 'timeout')
  if (policy.rate) resolveRate(policy.rate)
  resolveBreaker(policy.breaker ?? false)
}
