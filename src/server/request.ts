// Turns a request into a call: parameters, query, body and key, each checked against the schema of the document.

import { isWellFormed } from '../core/coordinate.ts'
import { RepriseError } from '../core/errors.ts'
import { inexactNumber } from '../lib/inexact-number.ts'
import { realTime, withinOrFail } from '../lib/waiting.ts'
import type { ServerLimits } from './limits.ts'
import { longTimes } from './request-slots.ts'
import type { QueryValues, Route } from './route.ts'
import { mismatch } from './schema.ts'
import type { ServerRequest } from './server-request.ts'

const keyLengthMax = 255

export function refuse(what: string): RepriseError {
  return new RepriseError('INVALID_ARGUMENT', what, {})
}

interface Segment {
  /** Null: a literal segment. */
  readonly name: string | null
  readonly text: string
}

/** A path with named segments in braces. @example new PathPattern('/v1/timelines/{timeline}') */
export class PathPattern {
  readonly #segments: readonly Segment[]
  readonly #isDeep: boolean

  /** `isDeep`: the last name takes the rest of the path, including slashes. */
  constructor(pattern: string, isDeep = false) {
    this.#isDeep = isDeep
    this.#segments = pattern.split('/').map((text) => ({ text, name: /^\{(\w+)\}$/.exec(text)?.[1] ?? null }))
  }

  /** The values of the names; a slash inside a value is written as %2F. Null: the path does not match. */
  match(path: string): Readonly<Record<string, string>> | null {
    const parts = path.split('/')
    const last = this.#segments.length - 1
    const given = this.#isDeep ? [...parts.slice(0, last), parts.slice(last).join('/')] : parts
    if (this.#segments.length !== given.length) return null
    const params: Record<string, string> = {}
    for (let i = 0; i < given.length; i++) {
      const { name, text } = this.#segments[i]!
      if (name === null) {
        if (text !== given[i]) return null
        continue
      }
      const value = decode(given[i]!)
      if (value === '') return null
      params[name] = value
    }
    return params
  }
}

function decode(text: string): string {
  try {
    const decoded = decodeURIComponent(text)
    if (isWellFormed(decoded) && !decoded.includes('\0')) return decoded
  } catch {
    // Reported below.
  }
  throw refuse('the path is not well-formed')
}

const namespaceParameter = 'namespace'

/** From the header or the address: an event stream and a link cannot set headers. */
export function namespaceOf(request: ServerRequest): string | null {
  const named = request.header('reprise-namespace')
  // Most addresses are ruled out without parsing them.
  if (named !== null || !/namespace|%/.test(request.search)) return named
  return new URLSearchParams(request.search).get(namespaceParameter)
}

type QueryValue = string | number | boolean

class Query implements QueryValues {
  readonly #values: ReadonlyMap<string, readonly QueryValue[]>

  constructor(values: ReadonlyMap<string, readonly QueryValue[]>) {
    this.#values = values
  }

  text(name: string): string | undefined {
    return this.#values.get(name)?.[0] as string | undefined
  }

  number(name: string): number | undefined {
    return this.#values.get(name)?.[0] as number | undefined
  }

  flag(name: string): boolean {
    return this.#values.get(name)?.[0] === true
  }

  list(name: string): readonly string[] {
    return (this.#values.get(name) ?? []) as readonly string[]
  }
}

export function queryOf(route: Route, search: string): QueryValues {
  const { query = {} } = route
  const values = new Map<string, QueryValue[]>()
  for (const [name, text] of pairsOf(search)) {
    if (name === namespaceParameter) continue
    const schema = Object.hasOwn(query, name) ? query[name] : undefined
    if (!schema)
      throw refuse(`unknown parameter ${name.slice(0, 80)} (known: ${Object.keys(query).join(', ') || 'none'})`)
    const value = typed(schema.type, text)
    const what = mismatch(schema, value, name)
    if (what !== null) throw refuse(what)
    const known = values.get(name)
    if (known && !schema.isList) throw refuse(`${name} must be set once`)
    if (known && known.length >= 32) throw refuse(`${name} must be set at most 32 times`)
    if (known) known.push(value)
    else values.set(name, [value])
  }
  for (const name in query) {
    if (query[name]!.isRequired && !values.has(name)) throw refuse(`${name} is missing`)
  }
  return new Query(values)
}

/** The pairs as URLSearchParams parses them; it is used only if the query contains escapes. */
function pairsOf(search: string): Iterable<readonly [string, string]> {
  if (search === '') return []
  if (!/^[\w.,~=&-]+$/.test(search)) return new URLSearchParams(search)
  return search.split('&').flatMap((pair) => {
    const at = pair.indexOf('=')
    return pair === '' ? [] : [at === -1 ? [pair, ''] : [pair.slice(0, at), pair.slice(at + 1)]]
  }) as [string, string][]
}

/** Text that is not a number or a boolean stays text, and the schema refuses it. */
function typed(type: string | undefined, text: string): string | number | boolean {
  if (type === 'integer' && /^-?\d{1,16}$/.test(text)) return Number(text)
  if (type === 'number' && /^\d{1,16}(\.\d{1,16})?$/.test(text)) return Number(text)
  if (type === 'boolean' && (text === 'true' || text === 'false')) return text === 'true'
  if (!isWellFormed(text) || text.includes('\0')) throw refuse('the query is not well-formed')
  return text
}

export interface Body {
  readonly body: Readonly<Record<string, unknown>>
  readonly bytes: Uint8Array | null
  /** The raw body, for the digest of a request with an Idempotency-Key. */
  readonly raw: Uint8Array
}

const noBody: Body = { body: {}, bytes: null, raw: new Uint8Array() }

/** Synchronous if the route takes no body. */
export function bodyOf(route: Route, request: ServerRequest, limits: ServerLimits): Body | Promise<Body> {
  return route.body || route.takesBytes ? readBody(route, request, limits) : noBody
}

async function readBody(route: Route, request: ServerRequest, limits: ServerLimits): Promise<Body> {
  const raw = await withinOrFail(
    realTime,
    bodyMsOf(route, limits),
    request.body(limits[route.takesBytes ?? 'bodyBytes']),
    slowBody,
  )
  const type = (request.header('content-type') ?? '').split(';')[0]!.trim().toLowerCase()
  const isJson = type === 'application/json'
  const isBytes = route.takesBytes === 'importBytes' || route.takesBytes === 'bodyBytes'
  if (isBytes || (route.takesBytes && !isJson)) return { body: {}, bytes: raw, raw }
  const mayBeEmpty = route.body?.type !== 'array' && !route.body?.required?.length && !route.takesBytes
  if (raw.length === 0 && mayBeEmpty) return { body: {}, bytes: null, raw }
  if (!isJson) throw refuse('the body must be JSON: send content-type: application/json')
  const value = parseJson(raw)
  const what = route.body ? mismatch(route.body, value, 'the body') : null
  if (what !== null) throw refuse(what)
  return { body: value as Record<string, unknown>, bytes: null, raw }
}

/** Less than the whole request may take: a slow client is refused as such, and not as work that took too long. */
function bodyMsOf(route: Route, { requestMs }: ServerLimits): number {
  return requestMs * (route.isLong ? longTimes : 1) * 0.9
}

function slowBody(): RepriseError {
  return new RepriseError(
    'TIMEOUT',
    'the body took too long to arrive',
    { part: 'body' },
    undefined,
    'Send the whole body at once.',
  )
}

export function parseJson(raw: Uint8Array): unknown {
  let text: string
  let value: unknown
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(raw)
    value = JSON.parse(text)
  } catch {
    throw refuse('the body is not JSON')
  }
  const inexact = inexactNumber(text)
  if (inexact !== null) throw refuse(`the number ${inexact} cannot be represented exactly: send it as text`)
  return value
}

export function keyOf(route: Route, request: ServerRequest): string | undefined {
  const key = request.header('idempotency-key')
  if (key === null || !route.once) return undefined
  if (key.length < 1 || key.length > keyLengthMax || !/^[\x21-\x7e]+$/.test(key)) {
    throw refuse(`Idempotency-Key must have 1 to ${keyLengthMax} printable characters without spaces`)
  }
  return key
}
