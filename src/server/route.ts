// What a route is: one value that the router, the OpenAPI document and the checks all read, so that none of them can say
// something else than the others.

import type { Head } from '../core/store/ports.ts'
import type { Reprise } from '../engine/api/reprise.ts'
import type { Artifacts } from '../layers/artifact/index.ts'
import type { Access, Principal, Role } from './access.ts'
import type { Answers } from './answers.ts'
import type { Asked } from './asked.ts'
import type { CacheLookups } from './cache-lookups.ts'
import type { Kinds } from './kinds.ts'
import type { ServerLimits } from './limits.ts'
import type { Metrics } from './metrics.ts'
import type { Problem } from './problem.ts'
import type { RemoteJobs } from './remote-jobs.ts'
import type { Schema } from './schema.ts'
import type { ServerSetting } from './settings.ts'
import type { SharedFeed } from './shared-feed.ts'
import type { Sidecars } from './sidecar/sidecars.ts'
import type { TimelineIndex } from './timeline-index.ts'

/** 'read': tools that look. 'act': also fork, retry and signal, as far as the caller's role goes. */
export type McpMode = 'read' | 'act'

/** HEAD is what GET is, without the body. The last two are WebDAV's, and stand in the document as extensions. */
export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE' | 'OPTIONS' | 'PROPFIND' | 'MKCOL'

/** A parameter of the query; `isList`: it may be given several times. */
export type QuerySchema = Schema & { readonly isList?: true; readonly isRequired?: true }

export interface Route {
  readonly method: Method
  /** As the document writes it: /v1/timelines/{timeline} */
  readonly path: string
  /** The last parameter takes the rest of the path, with its slashes. */
  readonly isDeep?: true
  /** The operationId of the document. */
  readonly id: string
  readonly summary: string
  readonly tag: string
  /** The least role; null: anybody, also without a token. */
  readonly role: Role | null
  /** It tells of the store as a whole: not for tokens that reach a part of it. */
  readonly isWhole?: true
  readonly query?: Readonly<Record<string, QuerySchema>>
  /** Of a JSON body. */
  readonly body?: Schema
  /** The body is bytes, up to this limit; a checkpoint may be JSON instead. */
  readonly takesBytes?: 'checkpointBytes' | 'importBytes' | 'bodyBytes'
  /** The types of such a body where the route goes by them, each of them JSON. */
  readonly bodyTypes?: readonly string[]
  /** The body is bytes that the route reads from the request as they come, up to this limit; of tus, to that of its upload. */
  readonly takesStream?: 'artifactBytes' | 'tus'
  /** How a refusal of this route is told where clients want it in a form of their own; problem+json if left out. */
  readonly refusal?: Refusal
  readonly status?: number
  readonly answer: Schema
  /** The type of the answer if it is no JSON. */
  readonly answerType?: string
  /** It may take ten times as long. */
  readonly isLong?: true
  /** It is answered however many requests are at work. */
  readonly isProbe?: true
  /** It stays open: it has a bound of its own, and no time. */
  readonly isStream?: true
  /** So does a request with such a query. */
  readonly mayStream?: (search: string) => boolean
  /**
   * What an Idempotency-Key does. 'answer': the answer is kept and given again, and the key is passed to the engine;
   * 'engine': the engine's own dedupe key is all that is needed. Left out: it changes nothing, or the same again is no change.
   */
  readonly once?: 'answer' | 'engine'
  /** What is answered, as JSON unless it is a Reply. */
  call(call: Call): Promise<unknown> | unknown
}

export interface Refusal {
  readonly type: string
  readonly schema: Schema
  /** The body, of that type. */
  tell(problem: Problem): string
}

/** One request, checked: of a principal that may do it, with parameters and body of the right form. */
export interface Call {
  readonly engine: Reprise
  readonly server: ServerParts
  readonly principal: Principal
  readonly asked: Asked
  readonly params: Readonly<Record<string, string>>
  readonly query: QueryValues
  /** The body as its schema says; an empty object if there was none. */
  readonly body: Readonly<Record<string, unknown>>
  /** Of a body that is not JSON. */
  readonly bytes: Uint8Array | null
  /** The Idempotency-Key. */
  readonly key: string | undefined
  /** Fired when the client is gone. */
  readonly signal: AbortSignal
  /** The timeline of the path: NOT_FOUND if there is none, or none that the principal may reach. */
  head(): Promise<Head>
}

export interface QueryValues {
  text(name: string): string | undefined
  number(name: string): number | undefined
  flag(name: string): boolean
  list(name: string): readonly string[]
}

/** What the routes of one server share. */
export interface ServerParts {
  readonly limits: ServerLimits
  readonly access: Access | null
  readonly metrics: Metrics
  readonly sidecars: Sidecars
  readonly feed: SharedFeed
  readonly index: TimelineIndex
  readonly answers: Answers
  /** Jobs that run here for workers outside, by their queue. */
  readonly remoteJobs: RemoteJobs
  readonly kinds: Kinds
  /** Of build tools. */
  readonly artifacts: Artifacts
  readonly lookups: CacheLookups
  /** The user's definitions: for queries, which replay code. */
  readonly definitions: readonly unknown[]
  readonly basePath: string
  readonly readOnly: boolean
  /** The settings of `serve`, and what the program around it says of them. */
  readonly given: readonly ServerSetting[]
  readonly ofHost: readonly ServerSetting[]
  /** All of them, for those that are made of others. */
  readonly routes: readonly Route[]
  /** Null: there are no tools for language models. */
  readonly mcp: McpMode | null
  /** Asks the server itself, as whoever the headers name. */
  ask(request: Request): Promise<Response>
  document(): unknown
}
