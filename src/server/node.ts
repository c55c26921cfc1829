// Requests and responses of node:http, used directly: Fetch objects are created only when read.

import type { IncomingMessage, ServerResponse } from 'node:http'
import { RepriseError } from '../core/errors.ts'
import { type ByteSource, isSource, type Reply } from './reply.ts'
import { addressOf, checkAnnounced, type ServerRequest, tooLarge } from './server-request.ts'

export class NodeRequest implements ServerRequest {
  readonly method: string
  readonly url: string
  readonly path: string
  readonly search: string
  readonly #incoming: IncomingMessage
  readonly #outgoing: ServerResponse
  #request: Request | null
  #gone: AbortController | null = null

  /** `request` is the same request, created by the adapter, which has checked its address; null: the request `isSimple`. */
  constructor(request: Request | null, incoming: IncomingMessage, outgoing: ServerResponse) {
    this.#request = request
    this.#incoming = incoming
    this.#outgoing = outgoing
    this.method = request?.method ?? incoming.method!
    this.url = request?.url ?? `http://${incoming.headers.host}${incoming.url}`
    const { path, search } = addressOf(this.url)
    this.path = path
    this.search = search
  }

  get request(): Request {
    this.#request ??= new Request(this.url, { method: this.method, headers: listed(this.#incoming.rawHeaders) })
    return this.#request
  }

  header(name: string): string | null {
    const value = this.#incoming.headers[name]
    return value === undefined ? null : typeof value === 'string' ? value : value.join(', ')
  }

  get headerBytes(): number {
    let bytes = 0
    for (const text of this.#incoming.rawHeaders) bytes += text.length + 2
    return bytes
  }

  async body(bytesMax: number): Promise<Uint8Array> {
    const incoming = this.#incoming
    checkAnnounced(incoming.headers['content-length'], bytesMax)
    return await new Promise((resolve, reject) => {
      const pieces: Buffer[] = []
      let bytes = 0
      const settle = (act: () => void) => {
        incoming.off('data', take).off('end', end).off('close', cut).off('error', cut)
        act()
      }
      const take = (piece: Buffer) => {
        bytes += piece.length
        pieces.push(piece)
        if (bytes <= bytesMax) return
        // The adapter drains the rest of the body, for a time of its own choosing.
        settle(() => incoming.pause())
        reject(tooLarge('the body', bytesMax, 'bytes'))
      }
      const end = () => settle(() => resolve(pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces)))
      const cut = () =>
        settle(() => reject(new RepriseError('ABORTED', 'the client disconnected before its body was complete')))
      incoming.on('data', take).once('end', end).once('close', cut).once('error', cut)
    })
  }

  get signal(): AbortSignal {
    if (this.#gone) return this.#gone.signal
    const gone = new AbortController()
    this.#gone = gone
    const outgoing = this.#outgoing
    if (outgoing.destroyed) gone.abort()
    else outgoing.once('close', () => !outgoing.writableFinished && gone.abort())
    return gone.signal
  }
}

/** Characters that the URL standard leaves unchanged; it escapes an apostrophe and non-ASCII characters. */
const simpleTarget = /^\/[\w!$&()*+,;=:@%~/?.-]*$/
const dotSegment = /\/(?:\.|%2e){1,2}(?:[/?]|$)/i
const simpleHost = /^[a-z0-9._-]+(?::[1-9]\d{3,4})?$/

/** A request without a body whose address needs no normalization: it can be read without the adapter. */
export function isSimple({ method, url = '', headers }: IncomingMessage): boolean {
  if (method !== 'GET' && method !== 'HEAD') return false
  if (headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined) return false
  return simpleHost.test(headers.host ?? '') && simpleTarget.test(url) && !dotSegment.test(url)
}

function listed(raw: readonly string[]): [string, string][] {
  return Array.from({ length: raw.length / 2 }, (_, i) => [raw[2 * i]!, raw[2 * i + 1]!])
}

/** Resolves when the whole response was passed to the socket; undefined: already done. */
export function send({ status, headers, body }: Reply, outgoing: ServerResponse): Promise<void> | undefined {
  if (isSource(body)) {
    outgoing.writeHead(status, headers)
    outgoing.flushHeaders()
    return pump(body, outgoing)
  }
  if (body === null) {
    outgoing.writeHead(status, headers).end()
    return undefined
  }
  const length = typeof body === 'string' ? Buffer.byteLength(body) : body.length
  outgoing.writeHead(status, { ...headers, 'content-length': length }).end(body)
  return undefined
}

/** Sends at the client's pace, so nothing accumulates. */
async function pump(source: ByteSource, outgoing: ServerResponse): Promise<void> {
  const gone = () => source.close()
  outgoing.once('close', gone)
  try {
    for (let piece = await source.next(); piece !== null; piece = await source.next()) {
      if (outgoing.destroyed) return
      if (!outgoing.write(piece)) await drained(outgoing)
    }
    outgoing.end()
  } catch {
    // The response has begun: closing the connection signals that it is incomplete.
    outgoing.destroy()
  } finally {
    outgoing.off('close', gone)
    source.close()
  }
}

function drained(outgoing: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const go = () => {
      outgoing.off('drain', go).off('close', go)
      resolve()
    }
    outgoing.once('drain', go).once('close', go)
  })
}
