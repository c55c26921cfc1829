// Responses to input that never became a request: headers that are too large, bytes that are not HTTP, a head that takes too
// long. The rest of the input is read for a moment, so that the response is not lost with the connection.

import { STATUS_CODES } from 'node:http'
import type { Duplex } from 'node:stream'
import { RepriseError } from '../core/errors.ts'
import { secured } from './guard.ts'
import { problemOf, problemReply } from './problem.ts'

const readOnMs = 1000

export function answerUnread(error: NodeJS.ErrnoException, socket: Duplex): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy()
    return
  }
  const { status, problem } = toldOf(error)
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

function toldOf({ code }: NodeJS.ErrnoException): { readonly status: number; readonly problem: RepriseError } {
  if (code === 'HPE_HEADER_OVERFLOW') {
    return { status: 431, problem: new RepriseError('LIMIT_EXCEEDED', 'address and headers are too large', {}) }
  }
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') {
    return { status: 408, problem: new RepriseError('TIMEOUT', 'the request took too long to arrive', {}) }
  }
  return { status: 400, problem: new RepriseError('INVALID_ARGUMENT', 'this is no HTTP request', {}) }
}
