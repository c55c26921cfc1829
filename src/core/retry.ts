// When an item that failed is tried again: after a growing pause with some chance in it, or when the item itself says.

import { type Duration, toMs } from './duration.ts'
import { RepriseError } from './errors.ts'

export interface RetryPolicy {
  /** Calls in all, the first included; 3 if left out. Then the item is a dead letter. */
  readonly attempts?: number
  /** Pause after the first failure; 1 second if left out. */
  readonly backoff?: Duration
  /** The pause grows by this factor each time; 2 if left out. */
  readonly factor?: number
  /** The pause never exceeds this; 1 minute if left out. */
  readonly maxBackoff?: Duration
  /** Part of the pause that is left to chance, 0 to 1; 0.2 if left out. */
  readonly jitter?: number
  /** Errors that end it at once. */
  readonly nonRetryable?: (error: unknown) => boolean
  /** How often an item may be in flight when the process dies before it is taken for the cause; 5 if left out. */
  readonly crashes?: number
}

export interface ResolvedRetry {
  readonly attempts: number
  readonly backoffMs: number
  readonly factor: number
  readonly maxBackoffMs: number
  readonly jitter: number
  readonly crashes: number
  readonly isFinal: (error: unknown) => boolean
}

/** Throw it from an item to be called again after a while; it does not use up an attempt. */
export class RetryLater extends Error {
  override readonly name: string = 'RetryLater'
  readonly retryAfter: Duration

  /** @example throw new RetryLater('30s', 'the service asked us to slow down') */
  constructor(retryAfter: Duration, message = 'try again later') {
    super(message)
    this.retryAfter = retryAfter
  }
}

/** Throw it from an item to say that trying again is of no use: it becomes a dead letter at once. */
export class GiveUp extends Error {
  override readonly name: string = 'GiveUp'
}

export function resolveRetry(policy: RetryPolicy = {}): ResolvedRetry {
  const { attempts = 3, factor = 2, jitter = 0.2, crashes = 5 } = policy
  if (!(attempts >= 1)) throw invalid('retry.attempts is a number from 1 on', attempts)
  if (!(jitter >= 0 && jitter <= 1)) throw invalid('retry.jitter is between 0 and 1', jitter)
  if (!(factor >= 1)) throw invalid('retry.factor is a number from 1 on', factor)
  if (!(crashes >= 1)) throw invalid('retry.crashes is a number from 1 on', crashes)
  return {
    attempts,
    backoffMs: toMs(policy.backoff ?? '1s', 'retry.backoff'),
    factor,
    maxBackoffMs: toMs(policy.maxBackoff ?? '1m', 'retry.maxBackoff'),
    jitter,
    crashes,
    isFinal: (error) => error instanceof GiveUp || (policy.nonRetryable?.(error) ?? false),
  }
}

export type Decision =
  | { readonly again: false }
  | { readonly again: true; readonly delayMs: number; readonly counts: boolean }

/** `failed` counts the attempt that just failed. */
export function decideRetry(policy: ResolvedRetry, failed: number, error: unknown, chance: number): Decision {
  if (policy.isFinal(error)) return { again: false }
  const asked = retryAfterOf(error)
  if (error instanceof RetryLater) return { again: true, delayMs: asked ?? policy.backoffMs, counts: false }
  if (failed >= policy.attempts) return { again: false }
  const pause = Math.min(policy.maxBackoffMs, policy.backoffMs * policy.factor ** (failed - 1))
  const delayMs = Math.round(pause * (1 - policy.jitter + policy.jitter * 2 * chance))
  return { again: true, delayMs: Math.max(asked ?? 0, Math.min(policy.maxBackoffMs, delayMs)), counts: true }
}

/** An error of any kind may say when: `retryAfter` as a duration, or seconds as in the HTTP header, or that header. */
function retryAfterOf(error: unknown): number | null {
  const given = (error as { retryAfter?: unknown } | null)?.retryAfter ?? headerOf(error, 'retry-after')
  if (typeof given !== 'number' && typeof given !== 'string') return null
  try {
    return toMs(typeof given === 'string' && /^\d+$/.test(given) ? Number(given) * 1000 : given)
  } catch {
    return null
  }
}

/** Errors of HTTP clients carry the headers of the answer, as a map or as an object. */
function headerOf(error: unknown, name: string): unknown {
  const headers = (error as { headers?: unknown } | null)?.headers
  if (typeof headers !== 'object' || headers === null) return undefined
  const { get } = headers as { get?: unknown }
  return typeof get === 'function' ? get.call(headers, name) : (headers as Record<string, unknown>)[name]
}

function invalid(what: string, given: unknown): RepriseError {
  return new RepriseError('INVALID_ARGUMENT', what, { given: String(given) })
}
