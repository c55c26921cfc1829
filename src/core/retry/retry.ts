// Decides whether a failed call is retried. Job items, workflow steps, tools, model calls, event handlers, deliveries and
// migrations share one policy, one pair of errors and one default (docs/decisions/one-policy.md).
//
// `RetryLater` and `GiveUp` are recognised by a symbol from the registry, not by their class: an error thrown by code that
// loaded another copy of this package has the same meaning.

import { type Duration, toMs } from '../duration.ts'
import { isReprise, RepriseError } from '../errors.ts'
import { checkOptions, namesOf } from '../options.ts'
import { refuseThenable } from '../synchronous.ts'
import { isPermanent, retryAfterOf } from './retry-after.ts'

export interface RetryPolicy {
  /** Calls in total, including the first. Default: 3. */
  readonly attempts?: number
  /** Pause after the first failure. Default: 1 second. */
  readonly backoff?: Duration
  /** Factor by which the pause grows after each failure. Default: 2. */
  readonly factor?: number
  /** Longest pause. Default: 1 minute. */
  readonly backoffMax?: Duration
  /** Random part of the pause, 0 to 1. Default: 0.2. */
  readonly jitter?: number
  /** A failure that requests a longer pause than this (a Retry-After header) is not retried. Default: 1 hour. */
  readonly retryAfterMax?: Duration
  /** Errors that are not retried, as if they were `GiveUp`: names, codes, classes, or a function that decides. */
  readonly giveUpOn?: readonly (string | (new (...args: never[]) => Error))[] | ((error: unknown) => boolean)
}

export interface ResolvedRetry {
  readonly attempts: number
  readonly backoffMs: number
  readonly factor: number
  readonly backoffMaxMs: number
  readonly jitter: number
  readonly retryAfterMaxMs: number
  /** The error is not retried. */
  readonly isFinal: (error: unknown) => boolean
}

const laterMark = Symbol.for('reprise.RetryLater')
const giveUpMark = Symbol.for('reprise.GiveUp')

/** Throw it from any call to be called again after a pause. It does not use up an attempt. */
export class RetryLater extends Error {
  override readonly name: string = 'RetryLater'
  readonly [laterMark] = true
  readonly retryAfter: Duration

  /** @example throw new RetryLater('30s', 'the service asked us to slow down') */
  constructor(retryAfter: Duration, message = 'try again later') {
    super(message)
    toMs(retryAfter, 'RetryLater')
    this.retryAfter = retryAfter
  }
}

/** Throw it from any call that a retry cannot help: the call fails permanently at once. */
export class GiveUp extends Error {
  override readonly name: string = 'GiveUp'
  readonly [giveUpMark] = true
}

export function isRetryLater(error: unknown): error is RetryLater {
  return hasMark(error, laterMark)
}

export function isGiveUp(error: unknown): error is GiveUp {
  return hasMark(error, giveUpMark)
}

function hasMark(error: unknown, mark: symbol): boolean {
  return typeof error === 'object' && error !== null && (error as Record<symbol, unknown>)[mark] === true
}

/** For calls that may run only once, and for computations whose result is always the same. */
export const callOnce: RetryPolicy = { attempts: 1 }
/** For compensations: an undo that stops halfway leaves the cleanup to a person. */
export const patientRetry: RetryPolicy = { attempts: 10 }

const noPolicy: RetryPolicy = {}
const resolved = new WeakMap<RetryPolicy, ResolvedRetry>()
const known = namesOf<RetryPolicy>()('attempts backoff factor backoffMax jitter retryAfterMax giveUpOn')
const renamed = { maxBackoff: 'backoffMax', nonRetryable: 'giveUpOn', crashes: 'crashesMax, an option of the job' }

/** Most calls have no policy of their own, so the resolved policy of their definition is cached. */
export function resolveRetry(policy: RetryPolicy | undefined, defaults: RetryPolicy = noPolicy): ResolvedRetry {
  if (policy) return resolve(policy, defaults)
  const known = resolved.get(defaults)
  if (known) return known
  const worked = resolve(defaults, noPolicy)
  resolved.set(defaults, worked)
  return worked
}

function resolve(policy: RetryPolicy, defaults: RetryPolicy): ResolvedRetry {
  checkOptions('retry', policy, known, renamed)
  const { attempts = 3, factor = 2, jitter = 0.2, ...rest } = { ...defaults, ...policy }
  if (!(attempts >= 1)) throw invalid('retry.attempts must be at least 1', attempts)
  if (!(jitter >= 0 && jitter <= 1)) throw invalid('retry.jitter must be between 0 and 1', jitter)
  if (!(factor >= 1)) throw invalid('retry.factor must be at least 1', factor)
  const isNamed = namedTest(rest.giveUpOn)
  return {
    attempts,
    backoffMs: toMs(rest.backoff ?? '1s', 'retry.backoff'),
    factor,
    backoffMaxMs: toMs(rest.backoffMax ?? '1m', 'retry.backoffMax'),
    jitter,
    retryAfterMaxMs: toMs(rest.retryAfterMax ?? '1h', 'retry.retryAfterMax'),
    isFinal: (error) => !isRetryLater(error) && (isGiveUp(error) || isUseless(error) || isNamed(error)),
  }
}

export interface RetryDecision {
  readonly again: boolean
  readonly delayMs: number
  /** Whether the failure uses up an attempt. */
  readonly counts: boolean
  /** `giveUpOn` threw or returned a promise: the error to report instead of the attempt's own. */
  readonly mistake?: unknown
}

const never: RetryDecision = { again: false, delayMs: 0, counts: true }

/** Decides after a failed attempt: give up, or call again after a pause. `failed` includes the attempt that just failed. */
export function decideRetry(
  policy: ResolvedRetry,
  failed: number,
  error: unknown,
  { chance, now }: { readonly chance: () => number; readonly now: number },
): RetryDecision {
  if (isRetryLater(error)) return { again: true, delayMs: toMs(error.retryAfter, 'RetryLater'), counts: false }
  try {
    if (policy.isFinal(error) || failed >= policy.attempts) return never
  } catch (mistake) {
    return { ...never, mistake }
  }
  const askedMs = retryAfterOf(error, now) ?? 0
  if (askedMs > policy.retryAfterMaxMs) return never
  const pause = Math.min(policy.backoffMaxMs, policy.backoffMs * policy.factor ** (failed - 1))
  const delayMs = Math.round(pause * (1 - policy.jitter + policy.jitter * 2 * chance()))
  return { again: true, delayMs: Math.max(askedMs, Math.min(policy.backoffMaxMs, delayMs)), counts: true }
}

/** Whether a failure counts against the breaker. `GiveUp` and `RetryLater` do not. */
export function isFault(policy: ResolvedRetry, error: unknown): boolean {
  try {
    return !isRetryLater(error) && !policy.isFinal(error)
  } catch {
    return true
  }
}

/** Errors that every retry would repeat: a mistake in the code or its input, a cancelled run, an answer such as 404. */
function isUseless(error: unknown): boolean {
  if (isReprise(error)) return error.remedy === 'fix' || error.code === 'BUG' || error.code === 'CANCELLED'
  return isPermanent(error)
}

function namedTest(list: RetryPolicy['giveUpOn']): (error: unknown) => boolean {
  if (list === undefined) return () => false
  if (typeof list === 'function') {
    return (error) => {
      const isFinal = list(error)
      refuseThenable(isFinal, 'giveUpOn', 'decide from the error alone')
      return isFinal
    }
  }
  return (error) =>
    error instanceof Error &&
    list.some((one) =>
      typeof one === 'string' ? error.name === one || (error as { code?: unknown }).code === one : error instanceof one,
    )
}

function invalid(what: string, given: unknown): RepriseError {
  return new RepriseError('INVALID_ARGUMENT', `${what} (got ${String(given)})`, { given: String(given) })
}
