// Shared code of the adapters for model services: one POST with `fetch`, errors with their status and retry time, and
// server-sent events read piece by piece. Nothing here is specific to a vendor.

import { RepriseError } from '../../../core/errors.ts'
import { namesOf } from '../../../core/options.ts'
import type { Usage } from '../message.ts'

export interface ModelPrice {
  readonly input: number
  readonly output: number
  /** Input that was read from the prompt cache. Default: a tenth of `input` for Anthropic; `input` for other services. */
  readonly cacheRead?: number
  /** Input that was written to the prompt cache. Default: 1.25 times `input` for Anthropic; `input` for other services. */
  readonly cacheWrite?: number
  /** Input that was written to the cache for an hour. Default: twice `input` for Anthropic; `cacheWrite` for other services. */
  readonly cacheWriteHour?: number
}

export interface HttpModelOptions {
  readonly model: string
  readonly apiKey?: string
  /** The base URL, without the path of the call. */
  readonly url?: string
  readonly headers?: Readonly<Record<string, string>>
  /** Further fields of the request. `settings.parameters` of the session override them. */
  readonly parameters?: Readonly<Record<string, unknown>>
  /** Whether the answer is streamed. Default: true. */
  readonly stream?: boolean
  /** Prices per million tokens, in the currency of your choice. If set, the usage has a cost. */
  readonly price?: ModelPrice
  /** A replacement for `fetch`. */
  readonly fetch?: typeof fetch
}

export const httpModelOptions = namesOf<HttpModelOptions>()('model apiKey url headers parameters stream price fetch')

/** The service refused or failed. The retry policy reads `status` and `retryAfter`. */
export class ModelHttpError extends Error {
  override readonly name: string = 'ModelHttpError'
  readonly status: number
  /** Seconds, from the header. */
  readonly retryAfter: string | undefined
  readonly body: string

  constructor(status: number, body: string, retryAfter: string | undefined) {
    super(`the model service answered ${status}: ${body.slice(0, 500)}`)
    this.status = status
    this.body = body
    this.retryAfter = retryAfter
  }
}

const errorBytesMax = 64 * 1024
const lineLengthMax = 16 * 1024 * 1024
const lineHint = 'This is not a response of a model service: check the URL, and any proxies in front of it.'

export async function post(
  url: string,
  headers: Readonly<Record<string, string>>,
  body: unknown,
  signal: AbortSignal | undefined,
  send: typeof fetch = fetch,
): Promise<Response> {
  const response = await send(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
    ...(signal && { signal }),
  })
  if (response.ok) return response
  const text = (await response.text().catch(() => '')).slice(0, errorBytesMax)
  throw new ModelHttpError(response.status, text, response.headers.get('retry-after') ?? undefined)
}

/** The data of each event, in order. If the connection ends in the middle of an event, the complete events are yielded. */
export async function* readEvents(response: Response): AsyncGenerator<string> {
  if (!response.body) return
  const decoder = new TextDecoder()
  let rest = ''
  let data: string[] = []
  for await (const piece of response.body as unknown as AsyncIterable<Uint8Array>) {
    rest += decoder.decode(piece, { stream: true })
    const lines = rest.split(/\r\n|\n|\r(?!$)/)
    rest = lines.pop()!
    if (rest.length > lineLengthMax)
      throw new RepriseError(
        'LIMIT_EXCEEDED',
        'the model service sent a line that is too long',
        {},
        undefined,
        lineHint,
      )
    for (const line of lines) {
      if (line === '') {
        if (data.length > 0) yield data.join('\n')
        data = []
      } else if (line.startsWith('data:')) data.push(line.slice(5).replace(/^ /, ''))
    }
  }
  if (data.length > 0) yield data.join('\n')
}

/** An error inside a stream that had begun successfully. */
export function streamError(error: unknown): Error {
  const { message, type, code, status } = (error ?? {}) as Record<string, unknown>
  const busy = ['overloaded_error', 'rate_limit_error', 'api_error', 'server_error', 'timeout_error']
  const isBusy = busy.includes(String(type)) || busy.includes(String(code))
  const known = typeof status === 'number' ? status : isBusy ? 503 : 400
  return new ModelHttpError(known, String(message ?? JSON.stringify(error)), undefined)
}

/** A stream that ended before its last event: the connection was interrupted. The call is retried. */
export function cutOff(): Error {
  return new ModelHttpError(503, 'the stream ended before the answer was complete', undefined)
}

/** Tokens by price: each token is in one count. */
export interface TokenCounts {
  /** Input that is in no other count. */
  readonly input: number
  readonly output: number
  readonly cacheRead: number
  readonly cacheWrite: number
  readonly cacheWriteHour: number
}

/** `cached` are the prices of cached input as shares of the input price, used if the definition sets none. */
export function usageOf(
  tokens: TokenCounts,
  price: ModelPrice | undefined,
  cached: { readonly read: number; readonly write: number; readonly writeHour: number } | null = null,
): Pick<Usage, 'inputTokens' | 'outputTokens'> & Partial<Usage> {
  const written = tokens.cacheWrite + tokens.cacheWriteHour
  const usage = {
    inputTokens: tokens.input + tokens.cacheRead + written,
    outputTokens: tokens.output,
    ...(tokens.cacheRead > 0 && { cacheReadTokens: tokens.cacheRead }),
    ...(written > 0 && { cacheWriteTokens: written }),
  }
  if (!price) return usage
  const { input, output, cacheRead = input * (cached?.read ?? 1), cacheWrite = input * (cached?.write ?? 1) } = price
  const cacheWriteHour = price.cacheWriteHour ?? (cached ? input * cached.writeHour : cacheWrite)
  const prices: TokenCounts = { input, output, cacheRead, cacheWrite, cacheWriteHour }
  const kinds = Object.keys(prices) as (keyof TokenCounts)[]
  return { ...usage, cost: kinds.reduce((sum, kind) => sum + tokens[kind] * prices[kind], 0) / 1e6 }
}

/**
 * The arguments that a model wrote. If they are not JSON, the text is returned, and the tool's schema reports the error
 * to the model.
 */
export function parseArgs(text: string): unknown {
  if (text.trim() === '') return {}
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
