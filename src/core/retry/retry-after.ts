// Reads from an HTTP client's error whether a retry can succeed (status) and when (Retry-After). Recognised are a thrown
// `Response`, errors that carry one, errors with their own status and headers (fetch wrappers, OpenAI, the AI SDK, AWS),
// Reprise's own errors, and any of these as the cause of another error.

import { toMs } from '../duration.ts'

type Fields = Readonly<Record<string, unknown>>

/** Longest chain of causes that is followed. */
const causesMax = 5
/** Statuses of a temporary refusal: the same request may succeed later. */
const passing: ReadonlySet<number> = new Set([408, 409, 423, 425, 429])
/** Codes of a 429 that waiting does not resolve: the account has run out of money. */
const permanentCodes: ReadonlySet<unknown> = new Set(['insufficient_quota', 'billing_hard_limit_reached'])

/** The request itself was refused (400, 401, 404, …): a retry would be refused again. */
export function isPermanent(error: unknown): boolean {
  for (const one of chain(error)) {
    if (permanentCodes.has(one.code)) return true
    const status = statusOf(one)
    if (status !== null) return status >= 400 && status < 500 && !passing.has(status)
  }
  return false
}

/** How many ms the service asks the caller to wait; null if the error does not specify it. */
export function retryAfterOf(error: unknown, now: number): number | null {
  for (const one of chain(error)) {
    const ms = asMs(one.retryAfter, now) ?? ourMs(one) ?? headerMs(one, now)
    if (ms !== null) return Math.ceil(ms)
  }
  return null
}

/** The error and its causes; an AI SDK `RetryError` holds its final cause in `lastError`. */
function* chain(error: unknown): Generator<Fields> {
  let one = error
  for (let depth = 0; depth <= causesMax; depth++) {
    if (typeof one !== 'object' || one === null) return
    yield one as Fields
    one = (one as Fields).lastError ?? (one as Fields).cause
  }
}

/** Exit codes of programs are also called `status`, so only HTTP error statuses count. */
function statusOf(one: Fields): number | null {
  const { status, statusCode, response, $metadata } = one
  const given = [
    status,
    statusCode,
    (response as Fields | null | undefined)?.status,
    ($metadata as Fields | null | undefined)?.httpStatusCode,
  ].find((each) => typeof each === 'number' && each >= 400 && each <= 599)
  return typeof given === 'number' ? given : null
}

/** Reprise's own errors: CALLS_SUSPENDED carries the remaining time in `retryAfterMs`. */
function ourMs(one: Fields): number | null {
  const ms = (one.data as Fields | null | undefined)?.retryAfterMs
  return typeof ms === 'number' && ms >= 0 ? ms : null
}

function headerMs(one: Fields, now: number): number | null {
  for (const headers of [one.headers, one.responseHeaders, (one.response as Fields | null | undefined)?.headers]) {
    const ms = Number(headerOf(headers, 'retry-after-ms') ?? Number.NaN)
    if (Number.isFinite(ms) && ms >= 0) return ms
    const after = asMs(headerOf(headers, 'retry-after'), now)
    if (after !== null) return after
  }
  return null
}

/** `Headers`, a map, or a plain object, whose keys may be in any case. */
function headerOf(headers: unknown, name: string): unknown {
  if (typeof headers !== 'object' || headers === null) return undefined
  const { get } = headers as { get?: unknown }
  if (typeof get === 'function') return get.call(headers, name) ?? undefined
  return Object.entries(headers).find(([key]) => key.toLowerCase() === name)?.[1]
}

/** A duration as everywhere else. In text, digits alone are seconds and a date is a point in time, as in HTTP. */
function asMs(given: unknown, now: number): number | null {
  if (typeof given === 'number') return given >= 0 && Number.isFinite(given) ? given : null
  if (typeof given !== 'string' || given === '') return null
  if (/^\d+$/.test(given)) return Number(given) * 1000
  try {
    return toMs(given)
  } catch {
    const at = Date.parse(given)
    return Number.isNaN(at) ? null : Math.max(0, at - now)
  }
}
