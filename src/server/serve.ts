// serve: a handler from Request to Response, for any server with this interface. It checks size, host and origin first, then
// the caller, then the request, and only then acts.

import { boardOf } from '../adapters/remote/board.ts'
import { serveBoard } from '../adapters/remote/boards.ts'
import { isReprise, RepriseError } from '../core/errors.ts'
import { checkOptions, namesOf } from '../core/options.ts'
import type { Reprise } from '../engine/api/reprise.ts'
import { hostOf } from '../engine/host/host.ts'
import { works } from '../engine/model/definition.ts'
import { type CacheKeep, checkKeep } from '../engine/tools/cache/retention.ts'
import { Artifacts } from '../layers/artifact/index.ts'
import { jsonOf } from '../operations/json.ts'
import { declareAll, declareKinds } from '../operations/known-models.ts'
import { packageVersion } from '../operations/package-info.ts'
import { Access, type AccessToken, loginPath, mayDo, type Principal } from './access.ts'
import { CacheLookups } from './cache-lookups.ts'
import { CheckedCall, type Unchecked } from './call.ts'
import { checkSize, OriginCheck, secured } from './guard.ts'
import { defaultServerLimits, type ServerLimits } from './limits.ts'
import { Metrics } from './metrics.ts'
import { documentOf } from './openapi.ts'
import { Page } from './page.ts'
import { type Problem, problemOf, problemReply } from './problem.ts'
import { RemoteJobs } from './remote-jobs.ts'
import { isSource, jsonHeaders, Reply, responseOf, watched } from './reply.ts'
import { namespaceOf, PathPattern } from './request.ts'
import { newNotes, type RequestLog, type RequestLogger, type RequestNotes } from './request-log.ts'
import { RequestSlots } from './request-slots.ts'
import { ResourceKinds } from './resource-kinds.ts'
import type { McpMode, Method, Route, ServerParts } from './route.ts'
import { Router } from './router.ts'
import { routes } from './routes/index.ts'
import { isUploadDefinition } from './routes/uploads.ts'
import { type ServerRequest, serverRequest } from './server-request.ts'
import { givenSettings, type ServerSetting } from './settings.ts'
import { SharedFeed } from './shared-feed.ts'
import { Sidecars } from './sidecar/sidecars.ts'
import { Answers } from './stored-responses.ts'
import { TimelineIndex } from './timeline-index.ts'

/** Identifies the caller; null: unknown. */
export type Authorize = (request: Request) => Principal | null | Promise<Principal | null>

export type ServeOptions = ServeSettings &
  (
    | {
        readonly tokens: readonly AccessToken[]
        readonly authorize?: never
      }
    | {
        readonly tokens?: never
        /** Replaces tokens, for a handler inside an application that knows its users. */
        readonly authorize: Authorize
      }
  )

/** The settings that do not depend on the kind of authentication. */
export interface ServeSettings {
  /** Restricts every caller to reading, whatever its role. */
  readonly readOnly?: boolean
  /**
   * Further namespaces, each with an engine of its own. A token reaches the namespaces it names; a request selects one with
   * the header Reprise-Namespace or the parameter `namespace`. Default: the token's first one.
   */
  readonly namespaces?: Readonly<Record<string, Reprise>>
  /** Origins under which a proxy exposes the server: 'https://reprise.example.com'. Loopback names are always accepted. */
  readonly origins?: readonly string[]
  /** Path under which the handler is mounted: '/reprise'. */
  readonly basePath?: string
  /** Definitions whose state is read or whose handlers are called: workflows, timelines, aggregates, … */
  readonly definitions?: readonly unknown[]
  readonly limits?: Partial<ServerLimits>
  /** Tools for language models at /mcp: 'read' reads, 'act' also forks, retries and signals. Default: none. */
  readonly mcp?: McpMode
  /** Automatic removal of build artifacts: unused for this long, or beyond this size. Default: none. */
  readonly cacheKeep?: CacheKeep
  /** Receives one row per request, for an access log. Default: none. */
  readonly log?: RequestLogger
  /** For people: the sources of the surrounding program's settings, in place of "an option of serve()". Never a secret. */
  readonly settings?: readonly ServerSetting[]
}

export interface Server {
  (request: Request): Promise<Response>
  /** A one-time path that begins a session of one browser within ten minutes, as the token of this name. */
  link(name: string): string
  /**
   * Accepts no new requests, ends the streams, waits for the work in progress (at most `closeMs`), and closes the timelines
   * opened for clients. The engine stays open: its owner closes it.
   */
  close(): Promise<void>
}

const known = namesOf<ServeOptions>()(
  'tokens authorize readOnly namespaces origins basePath definitions limits mcp cacheKeep log settings',
)

/** @example const handler = serve(rp, { tokens: [{ name: 'me', token, role: 'write' }] }) */
export function serve(engine: Reprise, options: ServeOptions): Server {
  checkOptions('serve()', options, known)
  checkOptions('limits of serve()', options.limits, new Set(Object.keys(defaultServerLimits)))
  const { tokens, authorize, readOnly = false, basePath = '' } = options
  if ((tokens === undefined) === (authorize === undefined)) {
    throw new RepriseError(
      'INVALID_ARGUMENT',
      'tokens or authorize is required: a server without either would be open to everyone',
      {},
    )
  }
  if (basePath !== '' && !/^(?:\/[\w.-]+)+$/.test(basePath)) {
    throw new RepriseError('INVALID_ARGUMENT', "basePath must be a path such as '/reprise'", {})
  }
  if (options.cacheKeep !== undefined) checkKeep('cacheKeep of serve()', options.cacheKeep)
  const limits: ServerLimits = { ...defaultServerLimits, ...options.limits }
  const access = tokens ? new Access(tokens, readOnly, () => hostOf(engine).clock.now()) : null
  const doors = new OriginCheck(options.origins ?? [])
  const handle = async (request: Request) => {
    const reply = await running.answer(serverRequest(request))
    return responseOf(request.method === 'HEAD' ? reply.withoutBody() : reply)
  }
  const serverOf = (of: Reprise) => {
    // A server that accepts uploads also completes them, from its start: some may be pending.
    if (!readOnly) for (const each of options.definitions ?? []) if (isUploadDefinition(each)) each[works](hostOf(of))
    const parts = partsOf(of)
    if (!readOnly) parts.remoteJobs.continue()
    return new RunningServer(of, parts, doors, authorize ?? null)
  }
  const partsOf = (of: Reprise): ServerParts => {
    const metrics = new Metrics(of.events, () => hostOf(of).clock.now())
    return {
      limits,
      index: new TimelineIndex(of, limits.indexedTimelines),
      access,
      metrics,
      lookups: new CacheLookups(metrics, of.events, () => hostOf(of).clock.now()),
      sidecars: new Sidecars(of, limits.openTimelines),
      feed: new SharedFeed(hostOf(of).kernel),
      answers: new Answers(of, limits.answersMs),
      remoteJobs: new RemoteJobs(of, limits.openTimelines),
      kinds: new ResourceKinds(of, options.definitions ?? [], limits.openTimelines),
      artifacts: new Artifacts(hostOf(of), options.cacheKeep),
      definitions: options.definitions ?? [],
      basePath,
      readOnly,
      given: givenSettings(options),
      ofHost: options.settings ?? [],
      routes,
      mcp: options.mcp ?? null,
      log: options.log ?? null,
      ask: handle,
      document: () => documentOf(routes, packageVersion(), basePath),
    }
  }
  const running = serverOf(engine)
  for (const [name, of] of Object.entries(options.namespaces ?? {})) running.beside(name, serverOf(of))
  return Object.assign(handle, {
    [answers]: (request: ServerRequest) => running.answer(request),
    [warms]: () => running.warm(),
    link: (name: string) => {
      if (!access) throw new RepriseError('INVALID_ARGUMENT', 'links need tokens', {})
      return loginPath(basePath, access.link(name).code)
    },
    close: () => running.close(),
  })
}

/** Key of the method for our own socket, which needs no Fetch objects. */
const answers = Symbol('answers')

/** The method that answers a request without Fetch objects. */
export function answererOf(server: Server): (request: ServerRequest) => Promise<Reply> {
  return (server as unknown as { readonly [answers]: (request: ServerRequest) => Promise<Reply> })[answers]
}

/** Key of the method for a program of its own, such as `reprise serve`. */
const warms = Symbol('warms')

/** Reads the index of timelines in the background, so that the first page of a large store need not wait for it. */
export function warmUp(server: Server): void {
  ;(server as unknown as { readonly [warms]: () => void })[warms]()
}

interface Caller {
  readonly principal: Principal
  readonly isBrowser: boolean
}

/** The principal of unauthenticated requests, for routes without a role. */
const nobody: Principal = { name: 'nobody', role: 'read', scopes: [] }

/** The status by which proxies record a request whose client disconnected before the response: not a fault of the server. */
const clientGone = 499

const methods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'PROPFIND', 'MKCOL'] as const satisfies Method[]
const noRoute = 'there is no such route; /v1/openapi.json lists them'
const noRouteHint = 'Check the path and the method against /v1/openapi.json.'

/** Marks a stored response of an earlier request. */
const again = { 'idempotency-replayed': 'true' }

/** Maximum number of cached handlers. */
const handlersMax = 1000
const handlerLengthMax = 256

/** The handler of a path, before the caller is known. */
type Handler = (request: ServerRequest, caller: Caller | null, notes: RequestNotes) => Promise<Reply> | Reply

class RunningServer {
  readonly #engine: Reprise
  readonly #parts: ServerParts
  readonly #doors: OriginCheck
  readonly #authorize: Authorize | null
  readonly #router: Router<Handler>
  readonly #handlers = new Map<string, Handler>()
  readonly #slots: RequestSlots
  readonly #page: Page
  /** Servers of further namespaces, by name. */
  readonly #others = new Map<string, RunningServer>()
  readonly #healthz: string
  readonly #readyz: string
  readonly #unserve: () => void
  #knowing: Promise<void> | null = null
  #isKnown = false

  constructor(engine: Reprise, parts: ServerParts, doors: OriginCheck, authorize: Authorize | null) {
    this.#engine = engine
    this.#parts = parts
    this.#doors = doors
    this.#authorize = authorize
    this.#slots = new RequestSlots(parts.limits, hostOf(engine).clock, engine.events)
    this.#page = new Page(parts.basePath)
    this.#healthz = `${parts.basePath}/healthz`
    this.#readyz = `${parts.basePath}/readyz`
    this.#router = this.#routes()
    this.#unserve = serveBoard(boardOf(hostOf(engine)))
  }

  async answer(request: ServerRequest): Promise<Reply> {
    const { log } = this.#parts
    const notes = newNotes()
    if (!log) return await this.#answer(request, notes)
    const { clock } = hostOf(this.#engine)
    const startedAt = clock.elapsed()
    const reply = await this.#answer(request, notes)
    const { method, path } = request
    const { route, principal, problem } = notes
    const status = notes.status ?? reply.status
    const over = () => {
      const ms = Math.round((clock.elapsed() - startedAt) * 1000) / 1000
      this.#log({ time: clock.now(), method, route, path, status, ms, principal, problem })
    }
    if (isSource(reply.body)) return new Reply(watched(reply.body, over), reply.headers, reply.status)
    over()
    return reply
  }

  /** A log that fails does not fail the request. */
  #log(row: RequestLog): void {
    try {
      this.#parts.log!(row)
    } catch (error) {
      this.#engine.events.emit('problem', { where: 'log of serve()', error })
    }
  }

  async #answer(request: ServerRequest, notes: RequestNotes): Promise<Reply> {
    try {
      checkSize(request, this.#parts.limits)
      const { method, path } = request
      // A probe sends an unknown host, and its response reveals nothing.
      const isProbe = path === this.#healthz || path === this.#readyz
      if (!isProbe) this.#doors.check(request)
      if (!this.#isKnown) await this.#know()
      const found = isProbe ? null : this.#identify(request)
      const caller = found instanceof Promise ? await found : found
      if (caller?.isBrowser) this.#doors.checkBrowser(request)
      notes.isScoped = caller?.principal.scopes !== null
      notes.principal = caller?.principal.name ?? null
      const at = this.#of(caller?.principal ?? nobody, request)
      if (!at.#isKnown) await at.#know()
      const handler = at.#handlerOf(method === 'HEAD' ? 'GET' : method, path)
      const reply = secured(handler ? await handler(request, caller, notes) : at.#nowhere(request, caller, notes))
      return method === 'HEAD' && isSource(reply.body) ? reply.withoutBody() : reply
    } catch (error) {
      return secured(problemReply(this.#problemOf(request.path, error, notes)))
    }
  }

  warm(): void {
    // A store that cannot be read is reported by the request that needs it.
    const warming = this.#know().then(() => this.#parts.index.warm())
    warming.catch(() => undefined)
    for (const other of this.#others.values()) other.warm()
  }

  /** Also serves this namespace. */
  beside(name: string, other: RunningServer): void {
    this.#others.set(name, other)
  }

  async close(): Promise<void> {
    await Promise.all([...this.#others.values()].map((other) => other.close()))
    await this.#slots.close()
    this.#parts.metrics.close()
    this.#parts.lookups.close()
    boardOf(hostOf(this.#engine)).hold()
    this.#unserve()
    await this.#parts.remoteJobs.close()
    await this.#parts.sidecars.close()
    await this.#parts.kinds.close()
    await this.#parts.artifacts.close()
  }

  /** The server of the requested namespace. A namespace that the token does not name is refused, whether it exists or not. */
  #of({ namespaces }: Principal, request: ServerRequest): RunningServer {
    const wanted = namespaceOf(request) ?? namespaces?.[0]
    if (wanted === undefined) return this
    const other = namespaces?.includes(wanted) ? this.#others.get(wanted) : undefined
    if (!other) throw new RepriseError('FORBIDDEN', 'this token gives no access to that namespace', {})
    return other
  }

  /** Declares the kinds of timelines and the given definitions, once. */
  async #know(): Promise<void> {
    this.#knowing ??= this.#declare()
    await this.#knowing
    this.#isKnown = true
  }

  async #declare(): Promise<void> {
    await declareKinds(this.#engine)
    declareAll(this.#engine, this.#parts.definitions)
  }

  #identify(request: ServerRequest): Caller | null | Promise<Caller | null> {
    return this.#authorize ? this.#ask(this.#authorize, request) : this.#parts.access!.identify(request)
  }

  async #ask(authorize: Authorize, request: ServerRequest): Promise<Caller | null> {
    const principal = await authorize(request.request)
    if (!principal) return null
    const role = this.#parts.readOnly ? 'read' : principal.role
    // Only the host knows whether a cookie was used, so a request without an authorization header is treated as a browser's.
    return { principal: { ...principal, role }, isBrowser: request.header('authorization') === null }
  }

  #routes(): Router<Handler> {
    const router = new Router<Handler>()
    const { basePath } = this.#parts
    for (const route of routes) {
      const pattern = new PathPattern(basePath + route.path, route.isDeep)
      const handler: Handler = (request, caller, notes) =>
        this.#measured(route, () => this.#call(route, pattern, request, caller), notes)
      router.add(route.method, basePath + route.path, handler, route.isDeep)
    }
    for (const path of ['', '/', '/assets/{file}']) {
      router.add('GET', basePath + path || '/', (request, caller, notes) => {
        return this.#page.answer(request) ?? this.#nowhere(request, caller, notes)
      })
    }
    return router
  }

  /** Cached per method and path. */
  #handlerOf(method: string, path: string): Handler | undefined {
    const which = `${method} ${path}`
    const known = this.#handlers.get(which)
    if (known) return known
    const found = this.#router.match(method, path)
    if (this.#handlers.size >= handlersMax) this.#handlers.clear()
    if (found && which.length <= handlerLengthMax) this.#handlers.set(which, found)
    return found
  }

  #nowhere(request: ServerRequest, caller: Caller | null, notes: RequestNotes): Reply {
    const refused = (error: RepriseError) => this.#problemOf(request.path, error, notes)
    if (!caller) return problemReply(refused(unauthenticated(request)))
    const allowed = methods.filter((method) => this.#router.match(method, request.path))
    const what = allowed.length > 0 ? `this route accepts ${allowed.join(', ')}` : noRoute
    const problem = refused(new RepriseError('NOT_FOUND', what, {}, undefined, noRouteHint))
    if (allowed.length === 0) return problemReply(problem)
    const { headers, body } = problemReply({ ...problem, status: 405 })
    return new Reply(body, { ...headers, allow: allowed.join(', ') }, 405)
  }

  async #measured(route: Route, work: () => Promise<Reply>, notes: RequestNotes): Promise<Reply> {
    const { metrics } = this.#parts
    const { clock } = hostOf(this.#engine)
    const startedAt = clock.elapsed()
    let reply: Reply
    notes.route = route.id
    try {
      reply = await work()
    } catch (error) {
      if (isReprise(error, 'ABORTED')) notes.status = clientGone
      const problem = this.#problemOf(route.id, error, notes)
      // A probe has no token: its refusal names no file and no host.
      reply = refusalOf(route, route.isProbe ? { ...problem, detail: 'the store is not ready', data: {} } : problem)
    }
    const seconds = isSource(reply.body) ? null : (clock.elapsed() - startedAt) / 1000
    metrics.answered(route.id, notes.status ?? reply.status, route.isStream ? null : seconds)
    return reply
  }

  /** An error that is not a RepriseError is reported to the operator under the id that the response carries. */
  #problemOf(where: string, error: unknown, notes: RequestNotes): Problem {
    const problem = problemOf(error, this.#parts.basePath, notes.isScoped)
    const { code, instance: id } = problem
    notes.problem = { code, error, ...(id !== undefined && { id }) }
    if (id !== undefined) this.#engine.events.emit('problem', { where: `${where} (${id})`, error })
    return problem
  }

  #call(route: Route, pattern: PathPattern, request: ServerRequest, caller: Caller | null): Promise<Reply> {
    if (route.role !== null && !caller) throw unauthenticated(request)
    const principal = caller?.principal ?? nobody
    if (route.role !== null && !mayDo(principal, route.role)) {
      throw new RepriseError(
        'FORBIDDEN',
        `${route.id} needs the role ${route.role}, and ${principal.name} has ${principal.role}`,
        {},
      )
    }
    if (route.isWhole && principal.scopes !== null) {
      throw new RepriseError('FORBIDDEN', `${route.id} needs a token for the whole store`, {})
    }
    // Parsed from the address itself: a router may have decoded a slash that is part of an id.
    const params = pattern.match(request.path)
    if (!params) throw new RepriseError('NOT_FOUND', noRoute, {}, undefined, noRouteHint)
    const from = { engine: this.#engine, server: this.#parts, principal, request, params }
    const staysOpen = route.isStream || route.mayStream?.(request.search)
    return staysOpen ? this.#stream(route, from) : this.#slots.work(route, () => this.#work(route, from))
  }

  async #work(route: Route, from: Unchecked): Promise<Reply> {
    const checked = CheckedCall.of(route, from)
    const call = checked instanceof Promise ? await checked : checked
    const { status = 200 } = route
    if (route.once === 'answer' && call.key !== undefined) {
      const { method, path, search } = from.request
      const what = `${method} ${path}${search && `?${search}`}\n${Buffer.from(call.raw).toString('base64')}`
      const { principal } = from
      const act = async () => await this.#traced(route, call)
      const { json, isAgain } = await this.#parts.answers.once({ principal: principal.name, key: call.key, what }, act)
      return jsonReply(json, status, isAgain ? again : null)
    }
    const answer = await this.#traced(route, call)
    if (answer instanceof Reply) return answer
    if (route.answerType !== undefined) return new Reply(String(answer), { 'content-type': route.answerType }, status)
    const isAgain = call.key !== undefined && (answer as { isDuplicate?: unknown } | null)?.isDuplicate === true
    return jsonReply(jsonOf(answer ?? null), status, isAgain ? again : null)
  }

  /** Work that a request starts belongs to the trace it names. */
  #traced(route: Route, call: CheckedCall): Promise<unknown> | unknown {
    const { tracing } = hostOf(this.#engine).kernel
    const traceparent = tracing ? call.request.header('traceparent') : null
    return traceparent === null ? route.call(call) : tracing!.within(traceparent, () => route.call(call))
  }

  async #stream(route: Route, from: Unchecked): Promise<Reply> {
    const { metrics } = this.#parts
    const end = new AbortController()
    const leave = this.#slots.stream(from.principal.name, () => end.abort())
    const updateCount = () => metrics.set('reprise_http_streams', this.#slots.streams)
    const over = () => {
      leave()
      updateCount()
    }
    updateCount()
    try {
      const call = (await CheckedCall.of(route, from)).endsWith(end.signal)
      const reply = (await route.call(call)) as Reply
      if (isSource(reply.body)) return new Reply(watched(reply.body, over), reply.headers)
      over()
      return reply
    } catch (error) {
      over()
      throw error
    }
  }
}

function refusalOf({ refusal }: Route, problem: Problem): Reply {
  if (!refusal) return problemReply(problem)
  const wait = problem.status === 503 && { 'retry-after': '1' }
  return new Reply(refusal.format(problem), { 'content-type': refusal.type, ...wait }, problem.status)
}

function jsonReply(json: string, status: number, more: Readonly<Record<string, string>> | null): Reply {
  return new Reply(json, more ? { ...jsonHeaders, ...more } : jsonHeaders, status)
}

/** The message names the kind of credentials the caller sent, and reveals nothing about existing tokens. */
function unauthenticated(request: ServerRequest): RepriseError {
  const what =
    request.header('authorization') === null ? 'a token is required' : 'unknown token, or the session has ended'
  return new RepriseError('UNAUTHENTICATED', what, {})
}
