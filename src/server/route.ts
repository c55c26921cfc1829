// A route is one value that the router, the OpenAPI document and the checks all read, so that they cannot disagree.

import type { Head } from '../core/store/ports.ts'
import type { Reprise } from '../engine/api/reprise.ts'
import type { Artifacts } from '../layers/artifact/index.ts'
import type { Access, Principal, Role } from './access.ts'
import type { CacheLookups } from './cache-lookups.ts'
import type { ServerLimits } from './limits.ts'
import type { Metrics } from './metrics.ts'
import type { Problem } from './problem.ts'
import type { RemoteJobs } from './remote-jobs.ts'
import type { RequestLogger } from './request-log.ts'
import type { ResourceKinds } from './resource-kinds.ts'
import type { Schema } from './schema.ts'
import type { ServerRequest } from './server-request.ts'
import type { ServerSetting } from './settings.ts'
import type { SharedFeed } from './shared-feed.ts'
import type { Sidecars } from './sidecar/sidecars.ts'
import type { Answers } from './stored-responses.ts'
import type { TimelineIndex } from './timeline-index.ts'

/** 'read': tools that read. 'act': also fork, retry and signal, if the caller's role permits. */
export type McpMode = 'read' | 'act'

/** HEAD is GET without the body. The last two are WebDAV's, and appear in the document as extensions. */
export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE' | 'OPTIONS' | 'PROPFIND' | 'MKCOL'

/** A parameter of the query; `isList`: it may be repeated. */
export type QuerySchema = Schema & { readonly isList?: true; readonly isRequired?: true }

export interface Route {
  readonly method: Method
  /** The path as in the document: /v1/timelines/{timeline} */
  readonly path: string
  /** The last parameter takes the rest of the path, including slashes. */
  readonly isDeep?: true
  /** The operationId in the document. */
  readonly id: string
  readonly summary: string
  readonly tag: string
  /** The minimum role; null: no token is needed. */
  readonly role: Role | null
  /** Concerns the store as a whole: refused for tokens with access to only part of it. */
  readonly isWhole?: true
  readonly query?: Readonly<Record<string, QuerySchema>>
  /** Schema of a JSON body. */
  readonly body?: Schema
  /** The body is bytes, up to this limit; a checkpoint may be JSON instead. */
  readonly takesBytes?: 'checkpointBytes' | 'importBytes' | 'bodyBytes'
  /** The accepted types of such a body, each of them JSON, if the route depends on the type. */
  readonly bodyTypes?: readonly string[]
  /**
   * The body is bytes that the route reads from the request as they arrive, up to this limit; for tus, up to the upload's own
   * limit.
   */
  readonly takesStream?: 'artifactBytes' | 'tus'
  /** The form of refusals for clients that expect their own. Default: problem+json. */
  readonly refusal?: Refusal
  readonly status?: number
  readonly answer: Schema
  /** Content type of the response, if it is not JSON. */
  readonly answerType?: string
  /** The route may take ten times as long. */
  readonly isLong?: true
  /** Answered regardless of the number of concurrent requests. */
  readonly isProbe?: true
  /** The response stays open: it has a limit of its own on number, and none on time. */
  readonly isStream?: true
  /** True if a request with this query stays open as well. */
  readonly mayStream?: (search: string) => boolean
  /**
   * Effect of an Idempotency-Key. 'answer': the response is stored and returned again, and the key is passed to the engine;
   * 'engine': the engine's own dedupe key is sufficient. Default: none, for routes that change nothing or are idempotent.
   */
  readonly once?: 'answer' | 'engine'
  /** Returns the response: a Reply, or a value that is sent as JSON. */
  call(call: Call): Promise<unknown> | unknown
}

export interface Refusal {
  readonly type: string
  readonly schema: Schema
  /** The body, in that type. */
  format(problem: Problem): string
}

/** One checked request: of an authorized principal, with valid parameters and body. */
export interface Call {
  readonly engine: Reprise
  readonly server: ServerParts
  readonly principal: Principal
  readonly request: ServerRequest
  readonly params: Readonly<Record<string, string>>
  readonly query: QueryValues
  /** The body, valid against its schema; an empty object if the request had none. */
  readonly body: Readonly<Record<string, unknown>>
  /** The body, if it is not JSON. */
  readonly bytes: Uint8Array | null
  /** Value of the Idempotency-Key header. */
  readonly key: string | undefined
  /** Aborted when the client disconnects. */
  readonly signal: AbortSignal
  /** Head of the timeline in the path: NOT_FOUND if it does not exist, or the principal does not reach it. */
  head(): Promise<Head>
}

export interface QueryValues {
  text(name: string): string | undefined
  number(name: string): number | undefined
  flag(name: string): boolean
  list(name: string): readonly string[]
}

/** The parts that the routes of one server share. */
export interface ServerParts {
  readonly limits: ServerLimits
  readonly access: Access | null
  readonly metrics: Metrics
  readonly sidecars: Sidecars
  readonly feed: SharedFeed
  readonly index: TimelineIndex
  readonly answers: Answers
  /** Jobs that run here for external workers, by queue. */
  readonly remoteJobs: RemoteJobs
  readonly kinds: ResourceKinds
  /** Artifacts of build tools. */
  readonly artifacts: Artifacts
  readonly lookups: CacheLookups
  /** The user's definitions: queries replay their code. */
  readonly definitions: readonly unknown[]
  readonly basePath: string
  readonly readOnly: boolean
  /** The settings of `serve`, and those reported by the surrounding program. */
  readonly given: readonly ServerSetting[]
  readonly ofHost: readonly ServerSetting[]
  /** All routes, for routes that are built from others. */
  readonly routes: readonly Route[]
  /** Null: no tools for language models. */
  readonly mcp: McpMode | null
  /** Null: requests are not logged. */
  readonly log: RequestLogger | null
  /** Sends a request to the server itself, as the caller that its headers identify. */
  ask(request: Request): Promise<Response>
  document(): unknown
}
