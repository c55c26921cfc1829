// The parts of a request that the server reads. A request from our own socket (node.ts) therefore needs no Fetch objects.

import { RepriseError } from '../core/errors.ts'
import { readBody } from '../engine/base/http-body.ts'

export interface ServerRequest {
  readonly method: string
  /** Absolute and normalized by the URL standard. */
  readonly url: string
  readonly path: string
  /** The query, without the question mark. */
  readonly search: string
  /** By lower-case name; several headers of one name are joined with commas. */
  header(name: string): string | null
  /** Size of all headers together. */
  readonly headerBytes: number
  /** The whole body, or LIMIT_EXCEEDED as soon as it is too long, regardless of its content-length. */
  body(bytesMax: number): Promise<Uint8Array>
  /** Aborted when the client disconnects. */
  readonly signal: AbortSignal
  /** The same request as a Fetch object. Its body may have been read. */
  readonly request: Request
}

export function serverRequest(request: Request): ServerRequest {
  const { method, url } = request
  const { path, search } = addressOf(url)
  return {
    ...{ method, url, path, search, request },
    header: (name) => request.headers.get(name),
    get headerBytes() {
      let bytes = 0
      for (const [name, value] of request.headers) bytes += name.length + value.length + 4
      return bytes
    },
    body: (bytesMax) => bodyOf(request, bytesMax),
    get signal() {
      return request.signal
    },
  }
}

/** Splits the address without a URL object: it is already normalized. */
export function addressOf(url: string): { readonly path: string; readonly search: string } {
  const start = url.indexOf('/', url.indexOf('//') + 2)
  const fragment = url.indexOf('#')
  const whole = fragment === -1 ? url.slice(start) : url.slice(start, fragment)
  const query = whole.indexOf('?')
  return query === -1 ? { path: whole, search: '' } : { path: whole.slice(0, query), search: whole.slice(query + 1) }
}

async function bodyOf(request: Request, bytesMax: number): Promise<Uint8Array> {
  checkAnnounced(request.headers.get('content-length'), bytesMax)
  const body = await readBody(request, bytesMax)
  if (body === null) throw tooLarge('the body', bytesMax, 'bytes')
  return body
}

export function checkAnnounced(length: string | null | undefined, bytesMax: number): void {
  if (Number(length ?? 0) > bytesMax) throw tooLarge('the body', bytesMax, 'bytes')
}

export function tooLarge(what: string, max: number, unit: string): RepriseError {
  return new RepriseError('LIMIT_EXCEEDED', `${what} must have at most ${max} ${unit}`, { max })
}
