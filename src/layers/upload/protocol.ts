// The tus protocol, 1.0.0: requests to the uploads of one definition, and their responses. Expected failures are responses as
// well, as problem+json with our codes. Sockets and tokens are left to the server, which passes the caller.

import { isWellFormed } from '../../core/coordinate.ts'
import { type ErrorCode, RepriseError } from '../../core/errors.ts'
import { fileOf } from './file.ts'
import { wantsSha256 } from './repr-digest.ts'
import {
  byteCount,
  type Concat,
  checksumAlgorithms,
  checksumOf,
  concatOf,
  idOfUrl,
  metadataOf,
  tusExtensions,
  tusVersion,
} from './rules/headers.ts'
import { hasTag, matchesTag, wantedOf } from './rules/range.ts'
import { isWhole, refuseGone, type UploadState } from './rules/state.ts'
import type { Incoming, Uploads } from './uploads.ts'

/** The parts of a request that matter here. */
export interface TusRequest {
  readonly method: string
  /** The id in the path; null: the path where uploads are created. */
  readonly id: string | null
  header(name: string): string | null
  /** The bytes of the body as they arrive. A truncated body throws ABORTED, a stalled one TIMEOUT. */
  body(): AsyncIterable<Uint8Array>
  /** Prefix of upload addresses: '/files/'. */
  readonly base: string
  /** The owner of an upload created by this request. */
  readonly by: string | null
  /** The caller only reads: a writer is not interrupted. */
  readonly isReader?: boolean
}

export interface TusAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | AsyncGenerator<Uint8Array> | null
}

/** The upload a client wants to create, before any byte is stored. */
export interface Offered {
  readonly length: number | null
  readonly metadata: Readonly<Record<string, string>>
  readonly by: string | null
}

/** True, or the reason for a refusal. */
export type Accept = (offered: Offered) => boolean | string | Promise<boolean | string>

const patchType = 'application/offset+octet-stream'

const statuses: Partial<Record<ErrorCode, number>> = {
  INVALID_ARGUMENT: 400,
  ABORTED: 400,
  FORBIDDEN: 403,
  NOT_FOUND: 404,
  TIMEOUT: 408,
  CONFLICT: 409,
  FENCED: 409,
  PINNED: 409,
  UPLOAD_GONE: 410,
  LIMIT_EXCEEDED: 413,
  REFUSED: 422,
  CHECKSUM_MISMATCH: 460,
  ...{ OVERLOADED: 503, CONTENDED: 503, SWEPT: 503, BASE_GONE: 503, CLOSED: 503, WORKER_RETIRED: 503 },
  ...{ OUTCOME_UNKNOWN: 503, STORE_UNREACHABLE: 503, STORE_BUSY: 503, STORE_IO: 503, CHUNK_DAMAGED: 503 },
  STORE_FULL: 507,
}

export async function answerTus(uploads: Uploads, accept: Accept | null, request: TusRequest): Promise<TusAnswer> {
  try {
    return await route(uploads, accept, request)
  } catch (error) {
    if (!(error instanceof RepriseError) || statuses[error.code] === undefined) throw error
    return problem(error)
  }
}

async function route(uploads: Uploads, accept: Accept | null, request: TusRequest): Promise<TusAnswer> {
  const method = methodOf(request)
  if (method === 'OPTIONS') return about(uploads)
  const isTus = request.header('tus-resumable') !== null
  if (request.id !== null && (method === 'GET' || (method === 'HEAD' && !isTus)))
    return await download(uploads, request)
  if (request.header('tus-resumable') !== tusVersion) {
    return { status: 412, headers: { 'tus-resumable': tusVersion, 'tus-version': tusVersion }, body: null }
  }
  if (request.id === null) {
    if (method === 'POST') return await create(uploads, accept, request)
    return notAllowed('POST, OPTIONS')
  }
  switch (method) {
    case 'HEAD':
      return await stand(uploads, request, request.id)
    case 'PATCH':
      return await patch(uploads, request, request.id)
    case 'DELETE':
      await uploads.end(request.id, 'terminated')
      return tus(204)
    default:
      return notAllowed('GET, HEAD, PATCH, DELETE, OPTIONS')
  }
}

/** Some environments can send only POST. */
function methodOf({ method, header }: TusRequest): string {
  const wanted = header('x-http-method-override')?.toUpperCase()
  return method === 'POST' && (wanted === 'PATCH' || wanted === 'DELETE' || wanted === 'HEAD') ? wanted : method
}

function about({ settings }: Uploads): TusAnswer {
  return tus(204, {
    'tus-version': tusVersion,
    'tus-extension': tusExtensions.join(','),
    'tus-max-size': String(settings.bytesMax),
    'tus-checksum-algorithm': checksumAlgorithms.join(','),
  })
}

async function create(uploads: Uploads, accept: Accept | null, request: TusRequest): Promise<TusAnswer> {
  const concat = concatOf(request.header('upload-concat'))
  const metadataHeader = request.header('upload-metadata')
  const metadata = metadataOf(metadataHeader)
  const length = lengthOf(request, concat)
  const { by } = request
  if (accept) {
    const verdict = await accept({ length, metadata, by })
    if (verdict !== true) {
      const why = typeof verdict === 'string' ? verdict : 'this upload is not accepted'
      throw new RepriseError('REFUSED', why.slice(0, 1000), {})
    }
  }
  const described = { metadata, metadataHeader: metadataHeader === '' ? null : metadataHeader, by }
  const made =
    concat.kind === 'final'
      ? await uploads.concat(described, concat.urls.map(partOf))
      : await uploads.create({ ...described, length, isPart: concat.kind === 'part' }, incomingOf(request, true))
  return tus(201, { location: request.base + made.id, ...stateHeaders(made.state) })
}

function partOf(url: string): string {
  const id = idOfUrl(url)
  if (id === null) throw new RepriseError('INVALID_ARGUMENT', 'Upload-Concat must name addresses of parts', {})
  return id
}

/** Null: the length is sent later. */
function lengthOf({ header }: TusRequest, concat: Concat): number | null {
  const length = byteCount('Upload-Length', header('upload-length'))
  const isDeferred = header('upload-defer-length')
  if (isDeferred !== null && isDeferred !== '1') {
    throw new RepriseError('INVALID_ARGUMENT', 'Upload-Defer-Length must be 1', {})
  }
  if (concat.kind === 'final') {
    if (length === null && isDeferred === null) return null
    throw new RepriseError(
      'INVALID_ARGUMENT',
      'a concatenated upload has the total length of its parts: omit Upload-Length',
      {},
    )
  }
  if ((length === null) === (isDeferred === null)) {
    throw new RepriseError('INVALID_ARGUMENT', 'send Upload-Length, or Upload-Defer-Length: 1', {})
  }
  return length
}

async function patch(uploads: Uploads, request: TusRequest, id: string): Promise<TusAnswer> {
  const type = request.header('content-type')
  if (type !== patchType) {
    const what = `the body of a PATCH must have the type ${patchType}`
    return { ...problem(new RepriseError('INVALID_ARGUMENT', what, {})), status: 415 }
  }
  const from = byteCount('Upload-Offset', request.header('upload-offset'))
  if (from === null) throw new RepriseError('INVALID_ARGUMENT', 'Upload-Offset is required', {})
  const state = await uploads.append(id, from, incomingOf(request, false)!)
  return tus(204, stateHeaders(state))
}

/** `isCreation`: null if the request has no bytes. */
function incomingOf(request: TusRequest, isCreation: boolean): Incoming | null {
  const { header } = request
  if (isCreation && header('content-type') !== patchType) return null
  const bytes = byteCount('Content-Length', header('content-length'))
  const length = isCreation ? null : byteCount('Upload-Length', header('upload-length'))
  const checksum = checksumOf(header('upload-checksum'))
  return { pieces: request.body(), bytes, length, checksum }
}

async function stand(uploads: Uploads, request: TusRequest, id: string): Promise<TusAnswer> {
  const state = request.isReader ? (await uploads.find(id)).state : await uploads.rest(id)
  const gone = refuseGone(state, uploads.nowOf(id))
  if (gone) throw new RepriseError(gone.code, gone.what, {})
  const concat =
    state.concat === 'part'
      ? { 'upload-concat': 'partial' }
      : state.concat === 'final'
        ? { 'upload-concat': `final;${state.parts.map((part) => request.base + part).join(' ')}` }
        : {}
  const headers = {
    ...stateHeaders(state),
    ...(state.length === null ? { 'upload-defer-length': '1' } : { 'upload-length': String(state.length) }),
    ...(state.metadataHeader !== null && { 'upload-metadata': state.metadataHeader }),
    ...concat,
    'cache-control': 'no-store',
  }
  return tus(200, headers)
}

function stateHeaders({ offset, status, expiresAt }: UploadState): Record<string, string> {
  const expires = (status === 'receiving' || status === 'part') && expiresAt !== null
  return {
    'upload-offset': String(offset),
    ...(expires && { 'upload-expires': new Date(expiresAt).toUTCString() }),
  }
}

async function download(uploads: Uploads, request: TusRequest): Promise<TusAnswer> {
  const stored = await uploads.find(request.id!)
  const { state } = stored
  const gone = refuseGone(state, uploads.nowOf(request.id!))
  if (gone) throw new RepriseError(gone.code, gone.what, {})
  if (!isWhole(state)) {
    const what = `this upload is incomplete: it has ${state.offset} bytes`
    throw new RepriseError('CONFLICT', what, {})
  }
  const file = fileOf(uploads.kernel, stored)
  const etag = `"${file.etag}"`
  const headers = {
    ...{ etag, 'accept-ranges': 'bytes', 'cache-control': 'private, no-cache' },
    // A browser never displays it, whatever type the client declared.
    'content-type': 'application/octet-stream',
    'content-disposition': dispositionOf(state.metadata),
    'x-content-type-options': 'nosniff',
    'last-modified': file.createdAt.toUTCString(),
  }
  if (!matchesTag(request.header('if-match'), etag)) return { status: 412, headers: { etag }, body: null }
  if (hasTag(request.header('if-none-match'), etag)) return { status: 304, headers: { etag }, body: null }
  const { size } = file
  const conditions = { range: request.header('range'), ifRange: request.header('if-range') }
  const wanted = wantedOf(conditions, size, etag)
  if (wanted.kind === 'unsatisfiable')
    return { status: 416, headers: { 'content-range': `bytes */${size}` }, body: null }
  const { from, to } = wanted.kind === 'range' ? wanted : { from: 0, to: size }
  const digest = wantsSha256(request.header('want-repr-digest')) ? await uploads.digests.of(file) : null
  return {
    status: wanted.kind === 'range' ? 206 : 200,
    headers: {
      ...headers,
      'content-length': String(to - from),
      ...(wanted.kind === 'range' && { 'content-range': `bytes ${from}-${to - 1}/${size}` }),
      ...(digest !== null && { 'repr-digest': digest }),
    },
    body: request.method === 'HEAD' ? null : file.read(from, to),
  }
}

/** The client's file name, in a form that cannot break the header and is not a path. */
function dispositionOf({ filename, name }: Readonly<Record<string, string>>): string {
  const given = (filename ?? name ?? '').replaceAll(/[\p{Cc}/\\]/gu, '_').slice(0, 200)
  const text = isWellFormed(given) ? given : ''
  const encoded = encodeURIComponent(text).replaceAll(/['()*]/g, (c) => `%${c.charCodeAt(0).toString(16)}`)
  return encoded === '' ? 'attachment' : `attachment; filename*=UTF-8''${encoded}`
}

function tus(status: number, headers: Readonly<Record<string, string>> = {}): TusAnswer {
  return { status, headers: { 'tus-resumable': tusVersion, 'cache-control': 'no-store', ...headers }, body: null }
}

function notAllowed(allow: string): TusAnswer {
  return { status: 405, headers: { allow, 'tus-resumable': tusVersion }, body: null }
}

export function problem(error: RepriseError): TusAnswer {
  const { code, hint, remedy } = error
  const status = statuses[code] ?? 500
  const detail = error.message.replace(/ \[[A-Z_]+\]$/, '')
  const headers = {
    'tus-resumable': tusVersion,
    'content-type': 'application/problem+json',
    'cache-control': 'no-store',
    ...(status === 503 && { 'retry-after': '1' }),
  }
  return { status, headers, body: JSON.stringify({ title: code, status, detail, code, remedy, hint }) }
}
