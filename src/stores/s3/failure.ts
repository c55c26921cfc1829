// Failures of a request, and whether a retry may help.

import { RepriseError } from '../../core/errors.ts'

/** An unexpected answer. */
export class HttpFailure extends Error {
  readonly status: number
  /** The code in the body, such as SlowDown; '' if there is none. */
  readonly code: string
  /** When the server sent it, by its own clock; NaN if unknown. */
  readonly date: number

  constructor(status: number, body: string, date: string | null) {
    const code = /<Code>([^<]*)<\/Code>/.exec(body)?.[1] ?? ''
    super(`${status} ${code} ${(/<Message>([^<]*)<\/Message>/.exec(body)?.[1] ?? '').slice(0, 200)}`.trim())
    this.status = status
    this.code = code
    this.date = date === null ? Number.NaN : Date.parse(date)
  }
}

const transientCodes = new Set(['RequestTimeTooSkewed', 'ExpiredToken', 'RequestTimeout', 'ExpiredTokenException'])

/** Everything below HTTP is transient: a refused connection, a truncated or missing answer. */
export function isTransient(error: unknown): boolean {
  if (error instanceof RepriseError) return false
  if (!(error instanceof HttpFailure)) return true
  // 501: a retry will not help.
  if (error.status === 501) return false
  return error.status >= 500 || [408, 409, 425, 429].includes(error.status) || transientCodes.has(error.code)
}

export function toStoreError(error: unknown, what: string, where: string): RepriseError {
  if (error instanceof RepriseError) return error
  const data = { where, ...(error instanceof HttpFailure && { status: error.status, answer: error.code }) }
  const because = error instanceof Error ? error.message : String(error)
  if (!(error instanceof HttpFailure)) {
    const cause = error instanceof Error && error.cause instanceof Error ? `: ${error.cause.message}` : ''
    return new RepriseError('STORE_UNREACHABLE', `${where} did not respond to ${what}: ${because}${cause}`, data, error)
  }
  if (error.code === 'NoSuchBucket') return new RepriseError('NOT_FOUND', `there is no bucket at ${where}`, data, error)
  if (error.status === 401 || error.status === 403) {
    return new RepriseError('STORE_DENIED', `${where} refused to ${what}: ${because}`, data, error)
  }
  const isFull = error.status === 507 || /Quota|StorageFull/i.test(error.code)
  return new RepriseError(isFull ? 'STORE_FULL' : 'STORE_IO', `${where} failed to ${what}: ${because}`, data, error)
}
