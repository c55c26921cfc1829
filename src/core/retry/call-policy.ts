// Bounds of calls to the outside, under the same names wherever something is called: how a failed call is retried, how
// long an attempt may take, how many calls may start, and when calls are suspended.

import { type Duration, toMs } from '../duration.ts'
import { Breaker, type BreakerPolicy, resolveBreaker } from './breaker.ts'
import { RateLimiter, type RatePolicy, resolveRate } from './rate.ts'
import { isFault, type ResolvedRetry, type RetryPolicy, resolveRetry } from './retry.ts'

export interface CallPolicy {
  /** Which failures are retried, how often, and after what pause. */
  readonly retry?: RetryPolicy
  /** Longest time for one attempt. Then its signal is aborted, and the attempt counts as failed. */
  readonly timeout?: Duration
  /** How many calls may start within a span of time. */
  readonly rate?: RatePolicy
  /** After consecutive failures, make no call for a pause, then one call as a probe. `true`: the default settings. */
  readonly breaker?: BreakerPolicy | boolean
}

export const callPolicyNames = ['retry', 'timeout', 'rate', 'breaker'] as const

/** The breaker and the rate limit of one kind of call, shared by all its callers in this process. */
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

  /** 0: start the call. Otherwise: try again after this many ms. `call` is the same object until `left(call)`. */
  breakerPauseMs(now: number, call: object): number {
    return this.#breaker?.tryStart(now, call) ?? 0
  }

  /** 0: start the call, which is counted now. Otherwise: try again after this many ms. */
  ratePauseMs(now: number): number {
    return this.#limiter?.tryStart(now) ?? 0
  }

  /** Checks both, the breaker first. */
  pauseMs(now: number, call: object): number {
    return this.breakerPauseMs(now, call) || this.ratePauseMs(now)
  }

  succeeded(): void {
    this.#breaker?.succeeded()
  }

  failed(retry: ResolvedRetry, error: unknown, now: number, call: object): void {
    if (isFault(retry, error)) this.#breaker?.failed(now, call)
  }

  /** The call has ended. An abandoned call shows nothing about the other side. */
  left(call: object): void {
    this.#breaker?.left(call)
  }
}

/** Throws on an invalid policy, for definitions that are made long before they are used. */
export function checkCallPolicy(policy: CallPolicy): void {
  resolveRetry(policy.retry)
  if (policy.timeout !== undefined) toMs(policy.timeout, 'timeout')
  if (policy.rate) resolveRate(policy.rate)
  resolveBreaker(policy.breaker ?? false)
}
