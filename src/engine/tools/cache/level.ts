// A level of a cache behind the local store: a server of ours, a bucket. The port is small on purpose. Time limits, the breaker,
// digests, scopes and the queue of uploads lie above it (guarded-level.ts, and the layer that uses it), once for all levels.

import type { Duration } from '../../../core/duration.ts'
import type { ErrorCode } from '../../../core/errors.ts'

export interface CacheLevel {
  /** Shown to people and kept in provenance: an address without secrets. */
  readonly name: string
  /** How long it may keep somebody waiting before it is left alone for a while; 10 seconds if left out. */
  readonly timeout?: Duration
  /** It sends so many bytes of a body at once: the time that takes is no standstill. One piece of the body if left out. */
  readonly pieceBytes?: number
  /** What its credentials may do. Throws where they may do nothing. */
  access(signal: AbortSignal): Promise<LevelAccess>
  /** Null: there is none. The body is read once, and may be given up half-way. */
  get(key: string, signal: AbortSignal): Promise<LevelEntry | null>
  /** All of it is there afterwards, or nothing. A key that is there is replaced. */
  put(key: string, body: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<void>
}

export interface LevelAccess {
  /** Where entries go that are put. */
  readonly scope: string
  readonly mayWrite: boolean
}

export interface LevelEntry {
  /** Where it was found; null: the level cannot say, so it counts as the scope of the credentials. */
  readonly scope: string | null
  readonly body: AsyncIterable<Uint8Array>
}

const usualCodes = { refused: 'FORBIDDEN', unfit: 'LIMIT_EXCEEDED', fault: 'STORE_UNREACHABLE' } as const

/**
 * Thrown by a level. `refused`: asking again with these credentials is of no use; `unfit`: this one entry cannot be put. The
 * code is the one that a problem is told with.
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
