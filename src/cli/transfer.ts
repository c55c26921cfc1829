// Shared by uploads and downloads of the command line: requests with a token, the meaning of refusals, and retries of broken
// connections. Redirects are not followed: a token is sent only to the address it was given for.

import { toMs } from '../core/duration.ts'
import { type ErrorCode, errorCodes, RepriseError } from '../core/errors.ts'
import { growingPause } from '../core/retry/pause.ts'
import { realTime, sleep } from '../lib/waiting.ts'
import type { Options } from './command.ts'
import { text } from './command.ts'
import { UsageError } from './exit.ts'
import { type Attempt, Broken, onLine } from './supervised-attempt.ts'

export { type Attempt, Broken }

export interface Endpoint {
  readonly url: URL
  readonly headers: Readonly<Record<string, string>>
  /** A connection without progress for this long is aborted. */
  readonly stallMs: number
}

const stallUsually = '60s'
/** Maximum number of consecutive attempts without a new byte. */
const attemptsMax = 30
const pauseMaxMs = 5000

export function endpointOf(
  address: string,
  options: Options,
  env: Readonly<Record<string, string | undefined>>,
): Endpoint {
  const url = URL.canParse(address) ? new URL(address) : null
  if (!url || !/^https?:$/.test(url.protocol)) {
    throw new UsageError(`${address} is not a URL that starts with http:// or https://`)
  }
  if (url.username !== '' || url.password !== '') {
    throw new UsageError('a URL must not contain a password: pass a token with --token or REPRISE_TOKEN')
  }
  const token = text(options, 'token') ?? env.REPRISE_TOKEN
  const stallMs = toMs(text(options, 'stall') ?? stallUsually, 'stall')
  return { url, headers: token === undefined ? {} : { authorization: `Bearer ${token}` }, stallMs }
}

export async function ask(
  { headers }: Endpoint,
  url: URL,
  init: RequestInit & { readonly duplex?: 'half' },
): Promise<Response> {
  try {
    return await fetch(url, { ...init, redirect: 'manual', headers: { ...headers, ...(init.headers as object) } })
  } catch (error) {
    if (init.signal?.aborted) throw error
    const cause = (error as { readonly cause?: { readonly message?: string } }).cause
    throw new Broken(cause?.message || (error as Error).message)
  }
}

/** Throws the server's error, unless the status is expected. */
export async function expectStatus(response: Response, ...expected: readonly number[]): Promise<Response> {
  const { status } = response
  if (expected.includes(status)) return response
  const body = (await response.text().catch(() => '')).slice(0, 10_000)
  if (status >= 500 || status === 408 || status === 409 || status === 423 || status === 429) {
    throw new Broken(`the server answered ${status}${detailOf(body)}`)
  }
  throw new RepriseError(codeOf(body, status), `the server answered ${status}${detailOf(body)}`, { status })
}

function problemIn(body: string): { readonly code?: unknown; readonly detail?: unknown } {
  try {
    const value = JSON.parse(body) as unknown
    return typeof value === 'object' && value !== null ? value : {}
  } catch {
    return {}
  }
}

function detailOf(body: string): string {
  const { detail } = problemIn(body)
  return typeof detail === 'string' ? `: ${detail.slice(0, 500)}` : ''
}

const byStatus: Readonly<Record<number, ErrorCode>> = {
  ...{ 401: 'UNAUTHENTICATED', 403: 'FORBIDDEN', 404: 'NOT_FOUND', 410: 'UPLOAD_GONE', 413: 'LIMIT_EXCEEDED' },
}

function codeOf(body: string, status: number): ErrorCode {
  const { code } = problemIn(body)
  if (errorCodes().includes(code as ErrorCode)) return code as ErrorCode
  return byStatus[status] ?? 'REFUSED'
}

/** Retries until it succeeds; the pause grows with each attempt without progress. */
export async function insist<T>(
  attempt: (line: Attempt) => Promise<T>,
  progress: () => number,
  note: (why: string) => void,
  { stallMs, signal }: { readonly stallMs: number; readonly signal: AbortSignal },
): Promise<T> {
  for (let failures = 0, before = progress(); ; ) {
    try {
      return await onLine(attempt, stallMs, signal)
    } catch (error) {
      if (!(error instanceof Broken) || signal.aborted) throw error
      failures = progress() > before ? 1 : failures + 1
      before = progress()
      if (failures >= attemptsMax) {
        throw new RepriseError('STORE_UNREACHABLE', `${error.message}; ${failures} attempts made no progress`, {})
      }
      note(error.message)
      await sleep(realTime, growingPause(failures, 200, pauseMaxMs), { signal })
    }
  }
}
