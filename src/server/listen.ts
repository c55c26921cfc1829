// Listens on a socket of this machine. TLS and public names are left to a proxy.

import { createServer, STATUS_CODES } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import { getRequestListener, type HttpBindings } from '@hono/node-server'
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'
import { RepriseError } from '../core/errors.ts'
import { secured } from './guard.ts'
import type { ServerLimits } from './limits.ts'
import { isSimple, NodeRequest, send } from './node.ts'
import { problemOf, problemReply } from './problem.ts'
import type { RequestLogger } from './request-log.ts'
import { longTimes } from './request-slots.ts'
import { answererOf, type Server } from './serve.ts'

export interface ListenOptions {
  /** Default: 127.0.0.1. */
  readonly host?: string
  /** 0: any free port. */
  readonly port: number
  readonly limits: Pick<ServerLimits, 'headerBytes' | 'requestMs' | 'closeMs'>
  /** Receives the refusals of input that never became a request; `serve` receives all others. */
  readonly log?: RequestLogger
}

export interface Listening {
  readonly url: string
  /** Accepts no new connections, and closes open ones after their response. */
  close(): Promise<void>
}

export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(?:\.\d{1,3}){3}$/.test(host)
}

export async function listen(server: Server, options: ListenOptions): Promise<Listening> {
  const { host = '127.0.0.1', port, limits, log } = options
  const answer = answererOf(server)
  const adapted = getRequestListener(
    async (request, bindings) => {
      const { incoming, outgoing } = bindings as HttpBindings
      await send(await answer(new NodeRequest(request, incoming, outgoing)), outgoing)
      return RESPONSE_ALREADY_SENT
    },
    { overrideGlobalObjects: false },
  )
  const bounds = {
    maxHeaderSize: limits.headerBytes,
    headersTimeout: 10_000,
    // A body may arrive as slowly as the longest route may take; each route ends its own requests.
    requestTimeout: limits.requestMs * longTimes,
    keepAliveTimeout: 5000,
  }
  const node = createServer(bounds, (incoming, outgoing) => {
    if (!isSimple(incoming)) return void adapted(incoming, outgoing)
    answer(new NodeRequest(null, incoming, outgoing)).then(
      (reply) => send(reply, outgoing),
      // Every refusal is a response, so this is a bug in Reprise: the connection is closed.
      () => outgoing.destroy(),
    )
  })
  node.on('clientError', (error, socket) => answerUnread(error, socket, log))
  await new Promise<void>((resolve, reject) => {
    const fail = (error: NodeJS.ErrnoException) => {
      const isTaken = error.code === 'EADDRINUSE'
      const what = isTaken ? `${host}:${port} is in use: choose another port` : `cannot listen at ${host}:${port}`
      reject(new RepriseError('INVALID_ARGUMENT', what, { host, port }, error))
    }
    node.once('error', fail)
    node.listen(port, host, () => {
      node.off('error', fail)
      resolve()
    })
  })
  const { port: actual } = node.address() as AddressInfo
  const shown = host.includes(':') ? `[${host}]` : host
  return {
    url: `http://${shown}:${actual}`,
    close: () =>
      new Promise<void>((resolve) => {
        // A connection becomes idle only after its response, so busy ones are checked repeatedly.
        const idle = setInterval(() => node.closeIdleConnections(), 20)
        const all = setTimeout(() => node.closeAllConnections(), limits.closeMs)
        node.close(() => {
          clearInterval(idle)
          clearTimeout(all)
          resolve()
        })
      }),
  }
}

const readOnMs = 1000

/**
 * Responses to input that never became a request: headers that are too large, bytes that are not HTTP, a head that
 * takes too long. The remaining input is read briefly, so that the response is not lost with the connection.
 */
function answerUnread(error: NodeJS.ErrnoException, socket: Duplex, log?: RequestLogger): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy()
    return
  }
  const { status, problem } = rejectionOf(error)
  const unknown = { method: null, route: null, path: null, ms: null, principal: null }
  log?.({ time: Date.now(), ...unknown, status, problem: { code: problem.code, error: problem } })
  const { headers, body } = secured(problemReply({ ...problemOf(problem, '', true), status }))
  const text = String(body)
  const lines = Object.entries({ ...headers, 'content-length': Buffer.byteLength(text), connection: 'close' })
  const head = lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')
  socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${head}\r\n${text}`)
  socket.resume()
  const timer = setTimeout(() => socket.destroy(), readOnMs)
  timer.unref()
  socket.once('close', () => clearTimeout(timer))
}

function rejectionOf({ code }: NodeJS.ErrnoException): { readonly status: number; readonly problem: RepriseError } {
  if (code === 'HPE_HEADER_OVERFLOW') {
    return { status: 431, problem: new RepriseError('LIMIT_EXCEEDED', 'address and headers are too large', {}) }
  }
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') {
    return { status: 408, problem: new RepriseError('TIMEOUT', 'the request took too long to arrive', {}) }
  }
  return { status: 400, problem: new RepriseError('INVALID_ARGUMENT', 'this is not an HTTP request', {}) }
}
