// Posts results over HTTP, at least once: a repeated request has the same Idempotency-Key, so a receiver that checks it has
// each result once.

import { RepriseError } from '../../../core/errors.ts'
import { checkGivenOptions, namesOf } from '../../../core/options.ts'
import { checkFunctions } from '../../../core/synchronous.ts'
import type { Sink } from '../sink.ts'
import { type SendOptions, sendSink } from './send.ts'

export interface HttpSinkOptions<T> extends SendOptions {
  /** The URL for a result. */
  readonly url: string | ((value: T) => string)
  /** Default: POST. */
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  /** Default: JSON. */
  readonly body?: (value: T) => string | Uint8Array
}

const known = namesOf<HttpSinkOptions<unknown>>()('url method headers body concurrency retry timeout rate breaker')

/** @example httpSink<Total>({ url: 'https://example.com/totals', headers: { authorization } }) */
export function httpSink<T>(options: HttpSinkOptions<T>): Sink<T> {
  checkGivenOptions('httpSink', options, known)
  checkFunctions('httpSink', options, [], ['body'])
  const { url, method = 'POST', headers = {}, body = (value: T) => JSON.stringify(value), ...policy } = options
  if (typeof url !== 'string' && typeof url !== 'function') {
    throw new RepriseError('INVALID_ARGUMENT', 'httpSink needs a url, or a function that returns one')
  }
  const post = async (value: T, { key, signal }: { readonly key: string; readonly signal: AbortSignal }) => {
    const to = typeof url === 'string' ? url : url(value)
    const answer = await fetch(to, {
      ...{ method, signal, body: body(value) },
      headers: { 'content-type': 'application/json', ...headers, 'idempotency-key': key },
    })
    // Read the body, so that the connection is free for the next request.
    await answer.arrayBuffer()
    if (answer.ok) return
    // The call policy decides which answers succeed, and observes Retry-After.
    const { status, headers: answered } = answer
    throw Object.assign(new Error(`${to} answered ${status}`), { status, headers: answered })
  }
  return sendSink<T>(post, { timeout: '30s', ...policy })
}
