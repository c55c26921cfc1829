// Errors as problem+json (RFC 9457) with our codes. An unexpected error reveals no internals.

import { randomUUID } from 'node:crypto'
import { type ErrorCode, RepriseError } from '../core/errors.ts'
import { plain } from '../operations/json.ts'
import { Reply } from './reply.ts'

const statuses: Partial<Record<ErrorCode, number>> = {
  INVALID_ARGUMENT: 400,
  INVALID_ID: 400,
  UNSERIALIZABLE: 400,
  ABORTED: 400,
  UNAUTHENTICATED: 401,
  FORBIDDEN: 403,
  STORE_READ_ONLY: 403,
  NOT_FOUND: 404,
  OUT_OF_RANGE: 404,
  FENCED: 409,
  OWNED: 409,
  CONFLICT: 409,
  ENDED: 409,
  EXISTS: 409,
  PINNED: 409,
  NOT_ON_BRANCH: 409,
  DIVERGED: 409,
  REFUSED: 409,
  SUPERSEDED: 409,
  STREAM_REPLACED: 409,
  WITHDRAWN: 409,
  HELD: 409,
  CANCELLED: 409,
  RUN_FAILED: 409,
  INVALID_STATE: 409,
  FOLD_FAILED: 409,
  EFFECT_IN_DOUBT: 409,
  INHERITED: 409,
  ALREADY_UNDONE: 409,
  CONSUMED: 409,
  POSITION_GONE: 410,
  REVISION_GONE: 410,
  UPLOAD_GONE: 410,
  LIMIT_EXCEEDED: 413,
  KEY_REUSED: 422,
  CHECKSUM_MISMATCH: 460,
  OVERLOADED: 503,
  TIMEOUT: 504,
  CONTENDED: 503,
  RESCALING: 503,
  CLOSED: 503,
  STORE_UNREACHABLE: 503,
  STORE_BUSY: 503,
  STORE_IO: 503,
  STORE_MOVED: 503,
  STORE_FULL: 507,
  OUTCOME_UNKNOWN: 503,
  CALLS_SUSPENDED: 503,
  WORKER_RETIRED: 503,
}

export interface Problem {
  readonly type: string
  readonly title: string
  readonly status: number
  readonly detail: string
  readonly code: ErrorCode
  readonly remedy: string
  readonly hint: string
  readonly data: Readonly<Record<string, unknown>>
  /** For an unexpected error: the id under which the server reports it to its operator. */
  readonly instance?: string
}

/** `isScoped`: the data may name timelines that the caller does not reach, so it is omitted. */
export function problemOf(error: unknown, base: string, isScoped: boolean): Problem {
  const known = error instanceof RepriseError && error.code !== 'BUG' ? error : null
  const shown = known ?? new RepriseError('BUG', 'an unexpected error occurred', {})
  const { code, remedy, hint, data } = shown
  return {
    type: `${base}/v1/errors/${code}`,
    title: code,
    status: code === 'TIMEOUT' && data.part === 'body' ? 408 : (statuses[code] ?? 500),
    detail: shown.message.replace(/ \[[A-Z_]+\]$/, ''),
    code,
    remedy,
    hint,
    data: isScoped ? {} : data,
    ...(code === 'BUG' && { instance: `urn:uuid:${randomUUID()}` }),
  }
}

export function problemReply(problem: Problem): Reply {
  const headers = {
    'content-type': 'application/problem+json',
    ...(problem.status === 401 && { 'www-authenticate': 'Bearer realm="reprise"' }),
    ...(problem.status === 503 && { 'retry-after': '1' }),
  }
  return new Reply(JSON.stringify(problem, plain), headers, problem.status)
}
