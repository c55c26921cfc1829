// The lifecycle of one upload, as pure functions: requests, transitions and refusals. The bytes themselves are elsewhere;
// this state has only the number of durable ones. The owner of the timeline under the newest epoch decides; the store refuses
// decisions of any earlier owner.
//
//   receiving ── all bytes are durable ──> received ── onComplete ──> starting ── runs started ──> completed
//       │                                     └─ gave up ──> failed ── retry ──> received
//       └── expired, or terminated at any time ──> ended
//
// A part of a concatenation stays `part` when it is complete: it waits to be joined.

import { assert, unreachable } from '../../../core/assert.ts'
import type { ErrorCode } from '../../../core/errors.ts'

export type UploadStatus = 'receiving' | 'part' | 'received' | 'starting' | 'completed' | 'failed' | 'removed'

/** A run to be started once for this upload, recorded in the commit that completes it. */
export interface UploadStart {
  readonly kind: string
  readonly name: string
  readonly id: string
  readonly input: unknown
}

export interface UploadState {
  readonly status: UploadStatus
  /** Null: not sent by the client yet. */
  readonly length: number | null
  /** Number of durable bytes. */
  readonly offset: number
  readonly metadata: Readonly<Record<string, string>>
  /** The raw header, which is returned to clients. */
  readonly metadataHeader: string | null
  readonly concat: 'whole' | 'part' | 'final'
  /** For a final upload: the ids of its parts. */
  readonly parts: readonly string[]
  /** The creator, as the server knows it. */
  readonly by: string | null
  readonly createdAt: number
  /** Expiry of an incomplete upload. */
  readonly expiresAt: number | null
  readonly endedBy: 'terminated' | 'expired' | null
  /** Etag of its bytes; null until it is complete. */
  readonly etag: string | null
  /** Number of calls of onComplete, including those whose process died. */
  readonly attempts: number
  /** True during a call, or if a process died in it. */
  readonly isCalling?: boolean
  readonly error: string | null
  readonly starts: readonly UploadStart[]
  readonly result: unknown
}

/** The events in its history. */
export type UploadEvent =
  | {
      readonly type: 'created'
      readonly length: number | null
      readonly metadata: Readonly<Record<string, string>>
      readonly metadataHeader: string | null
      readonly concat: UploadState['concat']
      readonly parts: readonly string[]
      readonly by: string | null
      readonly at: number
      readonly expiresAt: number | null
    }
  /** `offset` is the new total. */
  | {
      readonly type: 'received'
      readonly offset: number
      readonly length: number | null
      readonly expiresAt: number | null
    }
  /** All bytes are durable. */
  | { readonly type: 'filled'; readonly etag: string; readonly hasHandler: boolean }
  /** Recorded before onComplete is called: if its process dies during the call, the next process knows. */
  | { readonly type: 'called' }
  /** The engine closed during the call, which then does not count. */
  | { readonly type: 'uncalled' }
  | { readonly type: 'handled'; readonly starts: readonly UploadStart[]; readonly result: unknown }
  | { readonly type: 'started' }
  | { readonly type: 'stumbled'; readonly error: string; readonly isFinal: boolean }
  | { readonly type: 'retried' }
  | { readonly type: 'ended'; readonly by: 'terminated' | 'expired' }

export interface Refusal {
  readonly code: ErrorCode
  readonly what: string
}

export function created(event: Extract<UploadEvent, { type: 'created' }>): UploadState {
  const { length, metadata, metadataHeader, concat, parts, by, at, expiresAt } = event
  return {
    status: 'receiving',
    ...{ length, offset: 0, metadata, metadataHeader, concat, parts, by, createdAt: at, expiresAt },
    ...{ endedBy: null, etag: null, attempts: 0, error: null, starts: [], result: null },
  }
}

export function applyUpload(state: UploadState, event: UploadEvent): UploadState {
  switch (event.type) {
    case 'created':
      return created(event)
    case 'received':
      assert(state.status === 'receiving' && event.offset >= state.offset, 'bytes of an upload are only added')
      assert(state.length === null || state.length === event.length, 'the length of an upload is set once')
      return { ...state, offset: event.offset, length: event.length, expiresAt: event.expiresAt }
    case 'filled': {
      assert(state.status === 'receiving' && state.offset === state.length, 'a whole upload has all of its bytes')
      const status = state.concat === 'part' ? 'part' : event.hasHandler ? 'received' : 'completed'
      return { ...state, status, etag: event.etag, expiresAt: status === 'part' ? state.expiresAt : null }
    }
    case 'called':
      assert(state.status === 'received', 'onComplete is called for received uploads')
      return { ...state, attempts: state.attempts + 1, isCalling: true }
    case 'uncalled':
      assert(state.status === 'received' && state.isCalling === true, 'only a call in flight can be withdrawn')
      return { ...state, attempts: state.attempts - 1, isCalling: false }
    case 'handled': {
      assert(state.status === 'received', 'a received upload is completed once')
      const status = event.starts.length > 0 ? 'starting' : 'completed'
      return { ...state, ...called(state), status, starts: event.starts, result: event.result, error: null }
    }
    case 'started':
      assert(state.status === 'starting', 'runs are started after they were recorded')
      return { ...state, status: 'completed' }
    case 'stumbled': {
      assert(state.status === 'received', 'only an upload in completion can fail')
      const status = event.isFinal ? 'failed' : 'received'
      return { ...state, ...called(state), status, error: event.error }
    }
    case 'retried':
      assert(state.status === 'failed', 'only a failed completion is retried')
      return { ...state, status: 'received', attempts: 0, isCalling: false }
    case 'ended':
      return { ...state, status: 'removed', endedBy: event.by, expiresAt: null, starts: [], result: null }
    default:
      return unreachable(event)
  }
}

/** A call is counted when it begins; older releases counted it at its end. */
function called({ attempts, isCalling = false }: UploadState): Pick<UploadState, 'attempts' | 'isCalling'> {
  return { attempts: isCalling ? attempts : attempts + 1, isCalling: false }
}

/** True if all bytes are durable and can be read. */
export function isWhole({ status }: Pick<UploadState, 'status'>): boolean {
  return status !== 'receiving' && status !== 'removed'
}

export function isExpired({ status, expiresAt }: UploadState, now: number): boolean {
  return (status === 'receiving' || status === 'part') && expiresAt !== null && now >= expiresAt
}

/** The refusal if the upload no longer exists; null: it exists. */
export function refuseGone(state: UploadState, now: number): Refusal | null {
  if (state.status === 'removed') {
    return {
      code: 'UPLOAD_GONE',
      what: `this upload was ${state.endedBy === 'expired' ? 'not finished in time' : 'deleted'}`,
    }
  }
  return isExpired(state, now) ? { code: 'UPLOAD_GONE', what: 'this upload was not finished in time' } : null
}

export interface Append {
  /** The offset the client expects. */
  readonly from: number
  /** A length sent with this request. */
  readonly length: number | null
  /** Announced number of bytes; null: unknown. */
  readonly bytes: number | null
}

/** Checks whether bytes may be appended, before the first of them is read. */
export function refuseAppend(
  state: UploadState,
  { from, length, bytes }: Append,
  now: number,
  bytesMax: number,
): Refusal | null {
  const gone = refuseGone(state, now)
  if (gone) return gone
  if (state.concat === 'final') return { code: 'FORBIDDEN', what: 'a concatenated upload accepts no bytes' }
  if (from !== state.offset) {
    return { code: 'CONFLICT', what: `this upload is at byte ${state.offset}, not at ${from}` }
  }
  if (length !== null && state.length !== null && length !== state.length) {
    return { code: 'INVALID_ARGUMENT', what: `the length of this upload is ${state.length} bytes and cannot change` }
  }
  const whole = state.length ?? length
  if (whole !== null && whole < state.offset) {
    return { code: 'INVALID_ARGUMENT', what: `this upload has ${state.offset} bytes already` }
  }
  if (whole !== null && whole > bytesMax) return tooLarge(bytesMax)
  const bound = whole ?? bytesMax
  if (bytes !== null && from + bytes > bound) return tooLarge(bound)
  return null
}

export function tooLarge(bytesMax: number): Refusal {
  return { code: 'LIMIT_EXCEEDED', what: `this upload must have at most ${bytesMax} bytes` }
}
