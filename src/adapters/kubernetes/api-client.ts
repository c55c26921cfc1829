// Sends requests to an API server over keep-alive sockets, and maps its refusals to errors. Answers are JSON, or JSON lines.

import { Agent as HttpAgent, type IncomingMessage, request as requestHttp } from 'node:http'
import { Agent as HttpsAgent, request as requestHttps } from 'node:https'
import { RepriseError } from '../../core/errors.ts'
import type { Connect, Credentials } from './credentials.ts'

export interface Ask {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  readonly path: string
  readonly query?: Readonly<Record<string, string | number | undefined>>
  readonly body?: unknown
  /** The subject of the request, for errors. */
  readonly about: Readonly<Record<string, unknown>>
}

interface Status {
  readonly message?: string
  readonly reason?: string
  readonly details?: { readonly name?: string }
}

const answerMs = 30_000
const keepAliveMs = 30_000

export class ApiClient {
  readonly #connect: Connect
  #agent: { readonly made: string; readonly agent: HttpAgent } | null = null

  constructor(connect: Connect) {
    this.#connect = connect
  }

  async ask(ask: Ask): Promise<unknown> {
    const response = await this.#send(ask)
    const timer = setTimeout(() => response.destroy(new Error('the response took too long')), answerMs)
    let text = ''
    try {
      response.setEncoding('utf8')
      for await (const piece of response) text += piece
    } catch (error) {
      throw cut(ask, error)
    } finally {
      clearTimeout(timer)
    }
    const value = parsed(text)
    const { statusCode = 0 } = response
    if (statusCode < 200 || statusCode > 299) throw refusal(ask, statusCode, value as Status | undefined, text)
    if (value === undefined) throw cut(ask, new Error('the response is not JSON'))
    return value
  }

  /** Yields one value per line until the stream ends. Silence for longer than `silentMs` counts as a lost connection. */
  async *lines(ask: Ask, silentMs: number, signal: AbortSignal): AsyncGenerator<unknown> {
    const response = await this.#send(ask, signal)
    const stop = () => response.destroy()
    signal.addEventListener('abort', stop, { once: true })
    response.socket.setTimeout(silentMs, stop)
    try {
      response.setEncoding('utf8')
      const { statusCode = 0 } = response
      let text = ''
      for await (const piece of response) {
        text += piece
        if (statusCode !== 200) continue
        const lines = text.split('\n')
        text = lines.pop()!
        for (const line of lines) {
          const value = parsed(line)
          // An incomplete line is where the connection was cut.
          if (value !== undefined) yield value
        }
      }
      if (statusCode !== 200) throw refusal(ask, statusCode, parsed(text) as Status | undefined, text)
    } catch (error) {
      if (signal.aborted) return
      throw error instanceof RepriseError ? error : cut(ask, error)
    } finally {
      signal.removeEventListener('abort', stop)
      response.destroy()
    }
  }

  async #send(ask: Ask, signal?: AbortSignal): Promise<IncomingMessage> {
    const credentials = await this.#connect()
    const { server, headers } = credentials
    const query = Object.entries(ask.query ?? {}).flatMap(([name, value]) => {
      return value === undefined ? [] : [`${name}=${encodeURIComponent(value)}`]
    })
    const address = `${server.pathname.replace(/\/$/, '')}${ask.path}${query.length > 0 ? `?${query.join('&')}` : ''}`
    const body = ask.body === undefined ? null : Buffer.from(JSON.stringify(ask.body))
    const isTls = server.protocol === 'https:'
    return await new Promise((resolve, reject) => {
      const outgoing = (isTls ? requestHttps : requestHttp)({
        host: server.hostname.replace(/^\[|\]$/g, ''),
        port: server.port || (isTls ? 443 : 80),
        method: ask.method,
        path: address,
        agent: this.#agentFor(credentials, isTls),
        headers: {
          ...headers,
          accept: 'application/json',
          'user-agent': 'reprise',
          ...(body && { 'content-type': 'application/json', 'content-length': body.length }),
        },
        ...(signal && { signal }),
      })
      outgoing.setTimeout(answerMs, () => outgoing.destroy(new Error('there was no response')))
      outgoing.once('error', (error) => reject(cut(ask, error)))
      outgoing.once('response', (response) => {
        outgoing.setTimeout(0)
        // The response reports later errors.
        outgoing.on('error', () => undefined)
        resolve(response)
      })
      outgoing.end(body ?? undefined)
    })
  }

  /** Keeps the sockets as long as their connection settings stay the same. */
  #agentFor({ server, tls, proxy }: Credentials, isTls: boolean): HttpAgent {
    const made = JSON.stringify([server.href, tls, proxy?.url])
    if (this.#agent?.made === made) return this.#agent.agent
    const kept = { keepAlive: true, keepAliveMsecs: keepAliveMs }
    const direct = () => (isTls ? new HttpsAgent({ ...kept, ...tls }) : new HttpAgent(kept))
    const agent = proxy?.agent ?? direct()
    this.#agent = { made, agent }
    return agent
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** The outcome of a write is unknown here. */
function cut({ method, path, about }: Ask, error: unknown): RepriseError {
  const why = (error as Error).message
  if (method === 'GET') return new RepriseError('STORE_UNREACHABLE', `${path} was not answered: ${why}`, about, error)
  return new RepriseError('OUTCOME_UNKNOWN', `${method} ${path} was not answered: ${why}`, about, error)
}

function refusal(ask: Ask, code: number, status: Status | undefined, text: string): RepriseError {
  const { method, path, about } = ask
  const what = `${method} ${path}: ${status?.message ?? text.slice(0, 200)} (${code})`
  switch (code) {
    case 401:
      return new RepriseError('UNAUTHENTICATED', what, about)
    case 403:
      return new RepriseError('FORBIDDEN', what, about)
    case 404:
      // A response without a name means that the server does not know the kind, or that the kind has no status subresource.
      return new RepriseError(status?.details?.name === undefined ? 'INVALID_ARGUMENT' : 'NOT_FOUND', what, about)
    case 409:
      return new RepriseError(status?.reason === 'AlreadyExists' ? 'EXISTS' : 'CONFLICT', what, about)
    case 410:
      return new RepriseError('REVISION_GONE', what, about)
    case 429:
    case 503:
      return new RepriseError('OVERLOADED', what, about)
    default:
      if (code >= 500) return cut(ask, new Error(what))
      return new RepriseError('INVALID_ARGUMENT', what, about)
  }
}
