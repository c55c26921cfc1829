// A Reprise server as a cache level, through the plain interface for build tools: GET and PUT below /cache/<space>/.
// The token's scopes apply. Redirects are not followed: a token is sent only to the address it was configured for.

import { type ErrorCode, RepriseError } from '../../../core/errors.ts'
import { streamOf } from '../../base/http-body.ts'
import { type CacheLevel, type LevelAccess, type LevelEntry, LevelError } from './level.ts'

export interface HttpLevelOptions {
  readonly url: string
  readonly token?: string | undefined
  /** The first segment below /cache. */
  readonly space: string
}

export class HttpLevel implements CacheLevel {
  readonly name: string
  readonly #space: string
  readonly #headers: Readonly<Record<string, string>>

  constructor({ url, token, space }: HttpLevelOptions) {
    this.name = baseOf(url)
    this.#space = space
    this.#headers = token === undefined ? {} : { authorization: `Bearer ${token}` }
  }

  async access(signal: AbortSignal): Promise<LevelAccess> {
    const answer = await this.#ask('GET', '/cache/status', signal)
    if (answer.status !== 200) throw await faultOf(answer)
    const grant = (await answer.json()) as { readonly scope?: unknown; readonly mayWrite?: unknown }
    if (typeof grant.scope !== 'string') throw new LevelError('fault', 'it is not a Reprise server')
    // A server that omits this refuses the first upload, and no other is attempted.
    return { scope: grant.scope, mayWrite: grant.mayWrite !== false }
  }

  async get(key: string, signal: AbortSignal): Promise<LevelEntry | null> {
    const answer = await this.#ask('GET', `/cache/${this.#space}/${key}`, signal)
    if (answer.status === 404) {
      await answer.body?.cancel()
      return null
    }
    if (answer.status !== 200) throw await faultOf(answer)
    return { scope: answer.headers.get('reprise-scope'), body: answer.body ?? nothing() }
  }

  async put(key: string, body: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<void> {
    const answer = await this.#ask('PUT', `/cache/${this.#space}/${key}`, signal, body)
    if (!answer.ok) throw await faultOf(answer)
    await answer.body?.cancel()
  }

  async #ask(method: string, path: string, signal: AbortSignal, body?: AsyncIterable<Uint8Array>): Promise<Response> {
    const request = {
      ...{ method, signal, redirect: 'error' as const },
      headers: { ...this.#headers, ...(body && { 'content-type': 'application/octet-stream' }) },
      ...(body && { body: streamOf(body), duplex: 'half' as const }),
    }
    try {
      return await fetch(this.name + path, request)
    } catch (error) {
      signal.throwIfAborted()
      // The message of fetch itself is only "fetch failed".
      const { cause } = error as { readonly cause?: { readonly code?: string; readonly message?: string } }
      throw new LevelError('fault', cause?.code ?? cause?.message ?? (error as Error).message, error)
    }
  }
}

/** INVALID_ARGUMENT if it is not the address of a server. */
export function baseOf(url: string): string {
  const parsed = URL.canParse(url) ? new URL(url) : null
  if (!parsed || !['http:', 'https:'].includes(parsed.protocol) || parsed.search !== '' || parsed.hash !== '') {
    const what = `the url of a remote cache must be the address of a server, such as https://cache.example.com`
    throw new RepriseError('INVALID_ARGUMENT', what, {})
  }
  if (parsed.username !== '' || parsed.password !== '') {
    throw new RepriseError(
      'INVALID_ARGUMENT',
      'the url of a remote cache must not contain a token: pass it as `token`',
      {},
    )
  }
  return parsed.origin + parsed.pathname.replace(/\/+$/, '')
}

async function faultOf(answer: Response): Promise<LevelError> {
  await answer.body?.cancel()
  const { status } = answer
  const fault = (kind: LevelError['kind'], what: string, code: ErrorCode) => new LevelError(kind, what, undefined, code)
  switch (status) {
    case 401:
      return fault('refused', 'the server does not know the token (401)', 'UNAUTHENTICATED')
    case 403:
      return fault('refused', 'the token lacks permission for this (403)', 'FORBIDDEN')
    case 400:
      return fault('unfit', 'the server rejected the entry (400)', 'INVALID_ARGUMENT')
    case 413:
      return fault('unfit', 'the entry is too large for it (413)', 'LIMIT_EXCEEDED')
    case 429:
    case 503:
      return fault('fault', `it is overloaded (${status})`, 'OVERLOADED')
    case 507:
      return fault('fault', 'it has no space left (507)', 'STORE_FULL')
    default:
      return fault('fault', `it answered ${status}`, 'STORE_UNREACHABLE')
  }
}

async function* nothing(): AsyncGenerator<Uint8Array> {}
