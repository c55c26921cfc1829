// The protocol as a Fetch handler, for other servers: its mount path, authorization, and the sites whose pages may send to
// it.

import { isReprise, RepriseError } from '../../core/errors.ts'
import { checkOptions, namesOf } from '../../core/options.ts'
import { piecesOf, streamOf } from '../../engine/base/http-body.ts'
import { problem, type TusAnswer, type TusRequest } from './protocol.ts'
import { isUploadId, tusVersion } from './rules/headers.ts'

export type UploadHandler = (request: Request) => Promise<Response>

export interface Authorizing {
  readonly action: 'create' | 'write' | 'read' | 'delete'
  /** Null: the upload is being created. */
  readonly id: string | null
  /** The creator. */
  readonly by: string | null
}

/** Returns the caller's name, stored as `by` of created uploads; true for a caller without a name; any other value refuses. */
export type AuthorizeUpload = (
  request: Request,
  target: Authorizing,
) => string | boolean | null | undefined | Promise<string | boolean | null | undefined>

export interface HandlerOptions {
  /** Mount path: '/files'. Uploads are created there, and have addresses below it. */
  readonly path: string
  /** Called for every request except OPTIONS. */
  readonly authorize: AuthorizeUpload
  /** Sites whose pages may send here: 'https://app.example.com'. Default: only its own. */
  readonly origins?: readonly string[]
  /** A body that stalls for this long is aborted, in milliseconds; received bytes are kept. Default: 30,000. */
  readonly stillMs?: number
}

const known = namesOf<HandlerOptions>()('path authorize origins stillMs')

const exposed = [
  ...[
    'Upload-Offset',
    'Location',
    'Upload-Length',
    'Upload-Metadata',
    'Upload-Expires',
    'Upload-Concat',
    'Upload-Defer-Length',
  ],
  ...['Tus-Version', 'Tus-Resumable', 'Tus-Max-Size', 'Tus-Extension', 'Tus-Checksum-Algorithm'],
  ...['ETag', 'Content-Range', 'Accept-Ranges', 'Content-Disposition', 'Repr-Digest'],
].join(', ')
const allowed = [
  ...['Authorization', 'Content-Type', 'Upload-Offset', 'Upload-Length', 'Upload-Metadata', 'Upload-Concat'],
  ...[
    'Upload-Defer-Length',
    'Upload-Checksum',
    'Tus-Resumable',
    'X-HTTP-Method-Override',
    'X-Request-ID',
    'X-Requested-With',
  ],
  ...['Range', 'If-Range', 'If-None-Match'],
].join(', ')

export function handlerOf(
  name: string,
  options: HandlerOptions,
  answer: (request: TusRequest) => Promise<TusAnswer>,
  byOf: (id: string) => Promise<string | null>,
): UploadHandler {
  checkOptions(`handler of upload ${name}`, options, known)
  const { path, authorize, origins = [], stillMs = 30_000 } = options
  if (typeof path !== 'string' || !/^(?:\/[\w.~-]+)+$/.test(path)) {
    throw new RepriseError('INVALID_ARGUMENT', `the path of upload ${name} must be a path such as '/files'`, {})
  }
  if (typeof authorize !== 'function') {
    const what = `upload ${name}: authorize is required; without it, the handler would accept bytes from anyone`
    throw new RepriseError('INVALID_ARGUMENT', what, {})
  }
  return async (request) => {
    const cors = corsOf(request, origins)
    try {
      return respond(await ask(request), cors)
    } catch (error) {
      if (isReprise(error, 'FORBIDDEN', 'NOT_FOUND', 'INVALID_ARGUMENT')) return respond(problem(error), cors)
      throw error
    }
  }

  async function ask(request: Request): Promise<TusAnswer> {
    const id = idOf(new URL(request.url).pathname, path)
    const header = (each: string) => request.headers.get(each)
    const parts = { method: request.method, id, header, base: `${path}/`, body: () => piecesOf(request, stillMs) }
    if (request.method === 'OPTIONS') return await answer({ ...parts, by: null })
    const by = id === null || !isUploadId(id) ? null : await byOf(id)
    const who = await authorize(request, { action: actionOf(request), id, by })
    if (typeof who !== 'string' && who !== true) throw new RepriseError('FORBIDDEN', 'the request is not allowed', {})
    return await answer({ ...parts, by: who === true ? null : who })
  }
}

function idOf(pathname: string, path: string): string | null {
  if (pathname === path || pathname === `${path}/`) return null
  if (pathname.startsWith(`${path}/`)) return pathname.slice(path.length + 1)
  throw new RepriseError('NOT_FOUND', 'there is no such upload', {})
}

function actionOf({ method, headers }: Request): Authorizing['action'] {
  const override = headers.get('x-http-method-override')?.toUpperCase()
  const meant = method === 'POST' && override ? override : method
  if (meant === 'DELETE') return 'delete'
  if (meant === 'PATCH') return 'write'
  // A client that reads the offset of its upload is about to continue it.
  if (meant === 'HEAD' && headers.get('tus-resumable') !== null) return 'write'
  return meant === 'POST' ? 'create' : 'read'
}

function corsOf(request: Request, origins: readonly string[]): Record<string, string> {
  const origin = request.headers.get('origin')
  if (origin === null || !origins.includes(origin)) return {}
  return {
    'access-control-allow-origin': origin,
    vary: 'Origin',
    'access-control-expose-headers': exposed,
    ...(request.method === 'OPTIONS' && {
      'access-control-allow-methods': 'POST, GET, HEAD, PATCH, DELETE, OPTIONS',
      'access-control-allow-headers': allowed,
      'access-control-max-age': '86400',
    }),
  }
}

function respond({ status, headers, body }: TusAnswer, cors: Record<string, string>): Response {
  const all = { 'tus-resumable': tusVersion, 'x-content-type-options': 'nosniff', ...headers, ...cors }
  return new Response(typeof body === 'string' || body === null ? body : streamOf(body), { status, headers: all })
}
