// The access log: one row per request, after its response. A row names the caller and never carries a credential: no header,
// no query and no body.

import type { ErrorCode } from '../core/errors.ts'

export interface RequestLog {
  /** When the response was complete; milliseconds since 1970. */
  readonly time: number
  /** Null: the input was not an HTTP request. */
  readonly method: string | null
  /** The operationId of the route; null: the page, or no route. */
  readonly route: string | null
  /** Without the query; null: the input was not an HTTP request. */
  readonly path: string | null
  /** 499: the client disconnected before the response. */
  readonly status: number
  /** From the request to the end of its response. Null: the input was not an HTTP request. */
  readonly ms: number | null
  /** Name of the token, or of the principal that `authorize` returned; null: unknown caller. */
  readonly principal: string | null
  /** The cause of a refusal. */
  readonly problem: RequestProblem | null
}

export interface RequestProblem {
  readonly code: ErrorCode
  /** The id of an unexpected error, which the response carries too. */
  readonly id?: string
  readonly error: unknown
}

export type RequestLogger = (row: RequestLog) => void

/** The facts about a request that its row needs, noted while it is answered. */
export interface RequestNotes {
  /** False once the caller is known to reach the whole store: the data of its refusals is then shown. */
  isScoped: boolean
  route: string | null
  principal: string | null
  /** Differs from the response's status if the client did not receive it. */
  status: number | null
  problem: RequestProblem | null
}

export function newNotes(): RequestNotes {
  return { isScoped: true, route: null, principal: null, status: null, problem: null }
}
