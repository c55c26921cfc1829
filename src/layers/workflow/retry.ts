// Retry policies: how often, how long between, and which errors end it at once. Failed attempts are counted in history;
// an attempt that a crash cut short is not one of them.

import { type Duration, toMs } from '../../core/duration.ts'
import { RepriseError } from '../../core/errors.ts'
import { isCancelled, NonRetryable, RetryLater } from './failure.ts'

export interface RetryPolicy {
  /** Calls in all, the first included. */
  readonly attempts?: number
  /** Pause after the first failure; 1 second if left out. */
  readonly backoff?: Duration
  /** The pause grows by this factor each time; 2 if left out. */
  readonly factor?: number
  /** The pause never exceeds this; 1 minute if left out. */
  readonly maxBackoff?: Duration
  /** Part of the pause that is left to chance, 0 to 1; 0.2 if left out. */
  readonly jitter?: number
  /** Errors that end it at once: names, codes, classes, or a function that decides. */
  readonly nonRetryable?: readonly (string | (new (...args: never[]) => Error))[] | ((error: unknown) => boolean)
}

export interface ResolvedRetry {
  readonly attempts: number
  readonly backoffMs: number
  readonly factor: number
  readonly maxBackoffMs: number
  readonly jitter: number
  readonly isFinal: (error: unknown) => boolean
}

const noPolicy: RetryPolicy = {}
const resolved = new WeakMap<RetryPolicy, ResolvedRetry>()

/** Most steps have no policy of their own: what their workflow says is worked out once. */
export function resolveRetry(policy: RetryPolicy | undefined, defaults: RetryPolicy = noPolicy): ResolvedRetry {
  if (policy) return resolve(policy, defaults)
  const known = resolved.get(defaults) ?? resolve({}, defaults)
  resolved.set(defaults, known)
  return known
}

function resolve(policy: RetryPolicy, defaults: RetryPolicy): ResolvedRetry {
  const all = { ...defaults, ...policy }
  const attempts = all.attempts ?? 1
  if (!(attempts >= 1)) {
    throw new RepriseError('INVALID_ARGUMENT', 'retry.attempts is a number from 1 on', { given: String(attempts) })
  }
  const jitter = all.jitter ?? 0.2
  if (!(jitter >= 0 && jitter <= 1)) {
    throw new RepriseError('INVALID_ARGUMENT', 'retry.jitter is between 0 and 1', { given: String(jitter) })
  }
  return {
    attempts,
    backoffMs: toMs(all.backoff ?? '1s', 'retry.backoff'),
    factor: all.factor ?? 2,
    maxBackoffMs: toMs(all.maxBackoff ?? '1m', 'retry.maxBackoff'),
    jitter,
    isFinal: finalTest(all.nonRetryable),
  }
}

/** What to do after a failed attempt: give up, or call again after a pause. */
export function decideRetry(
  policy: ResolvedRetry,
  failed: number,
  error: unknown,
  random: () => number,
): { readonly again: boolean; readonly delayMs: number; readonly counts: boolean } {
  if (error instanceof RetryLater) return { again: true, delayMs: toMs(error.delay, 'RetryLater'), counts: false }
  if (error instanceof NonRetryable || isCancelled(error) || isBug(error) || policy.isFinal(error)) {
    return { again: false, delayMs: 0, counts: true }
  }
  if (failed >= policy.attempts) return { again: false, delayMs: 0, counts: true }
  const pause = Math.min(policy.maxBackoffMs, policy.backoffMs * policy.factor ** (failed - 1))
  const delayMs = Math.round(pause * (1 - policy.jitter + policy.jitter * 2 * random()))
  return { again: true, delayMs: Math.min(policy.maxBackoffMs, delayMs), counts: true }
}

function isBug(error: unknown): boolean {
  return error instanceof RepriseError && (error.remedy === 'fix' || error.code === 'BUG')
}

function finalTest(list: RetryPolicy['nonRetryable']): (error: unknown) => boolean {
  if (list === undefined) return () => false
  if (typeof list === 'function') return list
  return (error) =>
    error instanceof Error &&
    list.some((one) =>
      typeof one === 'string' ? error.name === one || (error as { code?: unknown }).code === one : error instanceof one,
    )
}
