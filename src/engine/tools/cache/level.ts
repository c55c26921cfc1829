// A further cache level after the local store: a Reprise server, a bucket. The port is small on purpose. Time limits, the
// breaker, digests, scopes and the upload queue are above it (guarded-level.ts, and the layer that uses it), once for
// all levels.

import type { Duration } from '../../../core/duration.ts'
import type { ErrorCode } from '../../../core/errors.ts'

export interface CacheLevel {
  /** Shown to people and stored in provenance: an address without secrets. */
  readonly name: string
  /** How long a caller waits for it before it is skipped for a while. Default: 10 seconds. */
  readonly timeout?: Duration
  /** How many bytes of a body it sends at once: the time of one such piece is not a stall. Default: one piece of the body. */
  readonly pieceBytes?: number
  /** The permissions of its credentials. Throws if they have no such value. */
  access(signal: AbortSignal): Promise<LevelAccess>
  /** Null: not found. The body is read once, and reading may stop halfway. */
  get(key: string, signal: AbortSignal): Promise<LevelEntry | null>
  /** Atomic: afterwards all of it is stored, or nothing. Replaces an existing key. */
  put(key: string, body: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<void>
}

export interface LevelAccess {
  /** The scope of new entries. */
  readonly scope: string
  readonly mayWrite: boolean
}

export interface LevelEntry {
  /** Where it was found. Null: unknown, so the scope of the credentials counts. */
  readonly scope: string | null
  readonly body: AsyncIterable<Uint8Array>
}

const usualCodes = { refused: 'FORBIDDEN', unfit: 'LIMIT_EXCEEDED', fault: 'STORE_UNREACHABLE' } as const

/**
 * Thrown by a level. `refused`: retrying with these credentials is useless; `unfit`: this one entry cannot be put. The
 * code is that of the reported problem.
 */
export class LevelError extends Error {
  readonly kind: 'refused' | 'unfit' | 'fault'
  readonly code: ErrorCode

  constructor(kind: LevelError['kind'], message: string, cause?: unknown, code: ErrorCode = usualCodes[kind]) {
    super(message, cause === undefined ? {} : { cause })
    this.name = 'LevelError'
    this.kind = kind
    this.code = code
  }
}
