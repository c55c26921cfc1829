// One request on its way to its route, checked before the route sees it. Most fields are computed only when read.

import type { Head } from '../core/store/ports.ts'
import type { Reprise } from '../engine/api/reprise.ts'
import type { Principal } from './access.ts'
import { type Body, bodyOf, keyOf, queryOf } from './request.ts'
import type { Call, QueryValues, Route, ServerParts } from './route.ts'
import { reached } from './scope-filter.ts'
import type { ServerRequest } from './server-request.ts'

export class CheckedCall implements Call {
  readonly engine: Reprise
  readonly server: ServerParts
  readonly principal: Principal
  readonly request: ServerRequest
  readonly params: Readonly<Record<string, string>>
  readonly query: QueryValues
  readonly body: Readonly<Record<string, unknown>>
  readonly bytes: Uint8Array | null
  readonly key: string | undefined
  /** The raw body. */
  readonly raw: Uint8Array
  #signal: AbortSignal | null = null

  private constructor(from: Unchecked, query: QueryValues, key: string | undefined, { body, bytes, raw }: Body) {
    this.engine = from.engine
    this.server = from.server
    this.principal = from.principal
    this.request = from.request
    this.params = from.params
    this.query = query
    this.key = key
    this.body = body
    this.bytes = bytes
    this.raw = raw
  }

  /** Checks query, key and body against the route. */
  static of(route: Route, from: Unchecked): CheckedCall | Promise<CheckedCall> {
    const query = queryOf(route, from.request.search)
    const key = keyOf(route, from.request)
    const body = bodyOf(route, from.request, from.server.limits)
    if (!(body instanceof Promise)) return new CheckedCall(from, query, key, body)
    return body.then((read) => new CheckedCall(from, query, key, read))
  }

  get signal(): AbortSignal {
    return this.#signal ?? this.request.signal
  }

  /** The signal also fires when the server closes. */
  endsWith(closing: AbortSignal): this {
    this.#signal = AbortSignal.any([this.request.signal, closing])
    return this
  }

  head(): Promise<Head> {
    return reached(this.engine, this.principal, this.params.timeline!)
  }
}

/** A request of an authorized principal, before its query, key and body are checked. */
export type Unchecked = Pick<Call, 'engine' | 'server' | 'principal' | 'request' | 'params'>
