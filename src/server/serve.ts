// serve: a handler from Request to Response, for any server that speaks these. It looks at size, host and origin first, then at
// who asks, then at what is asked, and only then does anything.

import { Hono } from 'hono'
import { RepriseError } from '../core/errors.ts'
import { checkOptions, namesOf } from '../core/options.ts'
import { hostOf } from '../engine/host.ts'
import type { Reprise } from '../engine/reprise.ts'
import { plain } from '../operations/json.ts'
import { declareAll, declareKinds } from '../operations/models.ts'
import { packageVersion } from '../operations/package.ts'
import { Access, type AccessToken, cookieName, mayDo, type Principal } from './access.ts'
import { Answers } from './answers.ts'
import { checkSize, Doors, secured } from './guard.ts'
import { defaultServerLimits, type ServerLimits } from './limits.ts'
import { Metrics } from './metrics.ts'
import { documentOf } from './openapi.ts'
import { Page } from './page.ts'
import { Places } from './places.ts'
import { problemOf, problemResponse } from './problem.ts'
import { reached } from './reach.ts'
import { RemoteJobs } from './remote-jobs.ts'
import { bodyOf, keyOf, matchPath, namespaceOf, queryOf } from './request.ts'
import type { Call, McpMode, Route, ServerParts } from './route.ts'
import { routes } from './routes/index.ts'
import { Sidecars } from './sidecar/sidecars.ts'
import { TimelineIndex } from './timeline-index.ts'

/** Who asks, or null for nobody. */
export type Authorize = (request: Request) => Principal | null | Promise<Principal | null>

export type ServeOptions = ServeSettings &
  (
    | {
        /** Who may do what. */
        readonly tokens: readonly AccessToken[]
        readonly authorize?: never
      }
    | {
        readonly tokens?: never
        /** In place of tokens, for a handler inside an application that knows its users. */
        readonly authorize: Authorize
      }
  )

/** Whoever may ask. */
export interface ServeSettings {
  /** Every caller may only look, whatever its role. */
  readonly readOnly?: boolean
  /**
   * Further namespaces, each with an engine of its own. A token reaches those that it names; a request says which with the header
   * Reprise-Namespace or the parameter `namespace`, or means the first of them.
   */
  readonly namespaces?: Readonly<Record<string, Reprise>>
  /** Where a proxy shows it: 'https://reprise.example.com'. Loopback names are always answered. */
  readonly origins?: readonly string[]
  /** Where the handler is mounted: '/reprise'. */
  readonly basePath?: string
  /** Definitions whose state and handlers are to be asked: workflows, timelines, aggregates, … */
  readonly definitions?: readonly unknown[]
  readonly limits?: Partial<ServerLimits>
  /** Tools for language models at /mcp: 'read' looks, 'act' also forks, retries and signals. None if left out. */
  readonly mcp?: McpMode
}

export interface Server {
  (request: Request): Promise<Response>
  /** A path that lets one browser in, once, within ten minutes, as the token of this name. */
  link(name: string): string
  /**
   * Takes nothing new, ends the streams, waits for what is at work (at most `closeMs`), and lets go of what clients had open. The
   * engine stays open: it is its owner's.
   */
  close(): Promise<void>
}

const known = namesOf<ServeOptions>({
  ...{ tokens: true, authorize: true, readOnly: true, namespaces: true, origins: true, basePath: true },
  ...{ definitions: true, limits: true, mcp: true },
})

/** @example const handler = serve(rp, { tokens: [{ name: 'me', token, role: 'write' }] }) */
export function serve(engine: Reprise, options: ServeOptions): Server {
  checkOptions('serve()', options, known)
  checkOptions('limits of serve()', options.limits, new Set(Object.keys(defaultServerLimits)))
  const { tokens, authorize, readOnly = false, basePath = '' } = options
  if ((tokens === undefined) === (authorize === undefined)) {
    throw new RepriseError('INVALID_ARGUMENT', 'give tokens, or authorize: a server without either would be open', {})
  }
  if (basePath !== '' && !/^(?:\/[\w.-]+)+$/.test(basePath)) {
    throw new RepriseError('INVALID_ARGUMENT', "basePath must be like '/reprise'", {})
  }
  const limits: ServerLimits = { ...defaultServerLimits, ...options.limits }
  const access = tokens ? new Access(tokens, readOnly, () => hostOf(engine).kernel.clock.now()) : null
  const doors = new Doors(options.origins ?? [])
  const serverOf = (of: Reprise) => new RunningServer(of, partsOf(of), doors, authorize ?? null)
  const partsOf = (of: Reprise): ServerParts => ({
    limits,
    index: new TimelineIndex(of, limits.indexedTimelines),
    access,
    metrics: new Metrics(of.events, () => hostOf(of).kernel.clock.now()),
    sidecars: new Sidecars(of, limits.openTimelines),
    answers: new Answers(of, limits.answersMs),
    remoteJobs: new RemoteJobs(of, limits.openTimelines),
    definitions: options.definitions ?? [],
    basePath,
    readOnly,
    routes,
    mcp: options.mcp ?? null,
    ask: (request) => running.answer(request),
    document: () => documentOf(routes, packageVersion(), basePath),
  })
  const running = serverOf(engine)
  for (const [name, of] of Object.entries(options.namespaces ?? {})) running.beside(name, serverOf(of))
  const handle = (request: Request) => running.answer(request)
  return Object.assign(handle, {
    link: (name: string) => {
      if (!access) throw new RepriseError('INVALID_ARGUMENT', 'links need tokens', {})
      return `${basePath}/login/${access.link(name).code}`
    },
    close: () => running.close(),
  })
}

interface Caller {
  readonly principal: Principal
  readonly isBrowser: boolean
}

interface Asked {
  readonly caller: Caller | null
  readonly isScoped: boolean
}

/** Before anybody is known: for routes that anybody may ask. */
const nobody: Principal = { name: 'nobody', role: 'read', scopes: [] }

/** The answer is the one that was given the first time. */
const again = { 'idempotency-replayed': 'true' }

class RunningServer {
  readonly #engine: Reprise
  readonly #parts: ServerParts
  readonly #doors: Doors
  readonly #authorize: Authorize | null
  readonly #app: Hono
  readonly #places: Places
  readonly #page: Page
  /** Of further namespaces, by their names. */
  readonly #others = new Map<string, RunningServer>()
  #known: Promise<void> | null = null

  constructor(engine: Reprise, parts: ServerParts, doors: Doors, authorize: Authorize | null) {
    this.#engine = engine
    this.#parts = parts
    this.#doors = doors
    this.#authorize = authorize
    this.#places = new Places(parts.limits, hostOf(engine).kernel.clock, engine.events)
    this.#page = new Page(parts.basePath)
    this.#app = this.#router()
  }

  async answer(request: Request): Promise<Response> {
    let isScoped = true
    try {
      checkSize(request, this.#parts.limits)
      const path = new URL(request.url).pathname
      // A probe knows no name of ours, and learns nothing.
      const isProbe = ['/healthz', '/readyz'].some((probe) => path === this.#parts.basePath + probe)
      if (!isProbe) this.#doors.check(request)
      this.#known ??= this.#declare()
      await this.#known
      const caller = isProbe ? null : await this.#identify(request)
      if (caller?.isBrowser) this.#doors.checkBrowser(request)
      isScoped = caller?.principal.scopes !== null
      const at = await this.#of(caller?.principal ?? nobody, request)
      return secured(await at.#app.fetch(request, { caller, isScoped }))
    } catch (error) {
      return secured(problemResponse(problemOf(error, this.#parts.basePath, isScoped)))
    }
  }

  /** Serves this namespace as well. */
  beside(name: string, other: RunningServer): void {
    this.#others.set(name, other)
  }

  async close(): Promise<void> {
    await Promise.all([...this.#others.values()].map((other) => other.close()))
    await this.#places.close()
    this.#parts.metrics.close()
    await this.#parts.remoteJobs.close()
    await this.#parts.sidecars.close()
  }

  /** The server of the namespace that is meant. What a token does not name is refused, whether it is there or not. */
  async #of({ namespaces }: Principal, request: Request): Promise<RunningServer> {
    const wanted = namespaceOf(request) ?? namespaces?.[0]
    if (wanted === undefined) return this
    const other = namespaces?.includes(wanted) ? this.#others.get(wanted) : undefined
    if (!other) throw new RepriseError('FORBIDDEN', 'this token does not reach that namespace', {})
    other.#known ??= other.#declare()
    await other.#known
    return other
  }

  async #declare(): Promise<void> {
    await declareKinds(this.#engine)
    declareAll(this.#engine, this.#parts.definitions)
  }

  async #identify(request: Request): Promise<Caller | null> {
    if (!this.#authorize) return this.#parts.access!.identify(request)
    const principal = await this.#authorize(request)
    if (!principal) return null
    const role = this.#parts.readOnly ? 'read' : principal.role
    // Whether it was a cookie, only its host knows: then it counts as a browser.
    return { principal: { ...principal, role }, isBrowser: request.headers.get('authorization') === null }
  }

  #router(): Hono {
    const app = new Hono({ strict: true })
    const { basePath } = this.#parts
    for (const route of routes) {
      const path = basePath + route.path.replaceAll(/\{(\w+)\}/g, ':$1')
      app.on(route.method, path, async (c) => {
        const { caller, isScoped } = c.env as Asked
        return await this.#measured(route, () => this.#call(route, c.req.raw, caller), isScoped)
      })
    }
    for (const path of ['', '/', '/assets/:file']) {
      app.get(basePath + path || '/', (c) => this.#page.answer(c.req.raw) ?? this.#nowhere(c.env as Asked))
    }
    app.get(`${basePath}/login/:code`, (c) => this.#login(c.req.param('code'), c.req.raw))
    app.notFound((c) => this.#nowhere(c.env as Asked))
    return app
  }

  #nowhere({ caller, isScoped }: Asked): Response {
    const error = caller
      ? new RepriseError('NOT_FOUND', 'there is no such route; /v1/openapi.json lists them', {})
      : unauthenticated()
    return problemResponse(problemOf(error, this.#parts.basePath, isScoped))
  }

  async #measured(route: Route, work: () => Promise<Response>, isScoped: boolean): Promise<Response> {
    const { metrics, basePath } = this.#parts
    const { clock } = hostOf(this.#engine).kernel
    const startedAt = clock.elapsed()
    const response = await work().catch((error) => problemResponse(problemOf(error, basePath, isScoped)))
    metrics.add('reprise_http_requests_total', 1, { route: route.id, status: String(response.status) })
    if (!route.isStream) metrics.observe('reprise_http_request_seconds', (clock.elapsed() - startedAt) / 1000)
    return response
  }

  async #call(route: Route, request: Request, caller: Caller | null): Promise<Response> {
    if (route.role !== null && !caller) throw unauthenticated()
    const principal = caller?.principal ?? nobody
    if (route.role !== null && !mayDo(principal, route.role)) {
      throw new RepriseError(
        'FORBIDDEN',
        `${route.id} needs the role ${route.role}, and ${principal.name} has ${principal.role}`,
        {},
      )
    }
    if (route.isWhole && principal.scopes !== null) {
      throw new RepriseError('FORBIDDEN', `${route.id} needs a token that reaches the whole store`, {})
    }
    if (route.isStream) return await this.#stream(route, request, principal)
    return await this.#places.work(route, () => this.#work(route, request, principal))
  }

  async #work(route: Route, request: Request, principal: Principal): Promise<Response> {
    const { call, raw } = await this.#prepare(route, request, principal)
    const { status = 200 } = route
    const act = async () => await this.#traced(request, async () => await route.call(call))
    if (route.once === 'answer' && call.key !== undefined) {
      const { pathname, search } = new URL(request.url)
      const what = `${request.method} ${pathname}${search}\n${Buffer.from(raw).toString('base64')}`
      const { json, isAgain } = await this.#parts.answers.once({ principal: principal.name, key: call.key, what }, act)
      return jsonResponse(json, status, isAgain ? again : {})
    }
    const answer = await act()
    if (answer instanceof Response) return answer
    if (route.answerType !== undefined) {
      return new Response(String(answer), { status, headers: { 'content-type': route.answerType } })
    }
    const isAgain = call.key !== undefined && (answer as { isDuplicate?: unknown } | null)?.isDuplicate === true
    return jsonResponse(JSON.stringify(answer ?? null, plain), status, isAgain ? again : {})
  }

  /** What a request starts belongs to the trace that it names. */
  #traced<T>(request: Request, act: () => T): T {
    const { tracing } = hostOf(this.#engine).kernel
    const traceparent = tracing ? request.headers.get('traceparent') : null
    return traceparent === null ? act() : tracing!.within(traceparent, act)
  }

  async #stream(route: Route, request: Request, principal: Principal): Promise<Response> {
    const { metrics } = this.#parts
    const end = new AbortController()
    const leave = this.#places.stream(() => end.abort())
    const told = () => metrics.set('reprise_http_streams', this.#places.streams)
    const over = () => {
      leave()
      told()
    }
    told()
    try {
      const { call } = await this.#prepare(route, request, principal)
      const signal = AbortSignal.any([call.signal, end.signal])
      const response = (await route.call({ ...call, signal })) as Response
      return new Response(watched(response.body!, over), response)
    } catch (error) {
      over()
      throw error
    }
  }

  async #prepare(
    route: Route,
    request: Request,
    principal: Principal,
  ): Promise<{ readonly call: Call; readonly raw: Uint8Array }> {
    const engine = this.#engine
    const { pathname, searchParams } = new URL(request.url)
    // Read from the address itself: a router may have decoded a slash that is part of an id.
    const params = matchPath(this.#parts.basePath + route.path, pathname)
    if (!params) throw new RepriseError('NOT_FOUND', 'there is no such route; /v1/openapi.json lists them', {})
    const query = queryOf(route, searchParams)
    const key = keyOf(route, request)
    const { body, bytes, raw } = await bodyOf(route, request, this.#parts.limits)
    const head = () => reached(engine, principal, params.timeline!)
    const { signal } = request
    return {
      raw,
      call: { engine, server: this.#parts, principal, request, params, query, body, bytes, key, signal, head },
    }
  }

  #login(code: string, request: Request): Response {
    const { access, basePath } = this.#parts
    const session = access?.redeem(code)
    if (!session) {
      const what = 'this link was used already, or is too old: ask for a new one'
      return problemResponse(problemOf(new RepriseError('UNAUTHENTICATED', what, {}), basePath, true))
    }
    const secure = this.#doors.isHttps(request) ? '; Secure' : ''
    const cookie = `${cookieName}=${session.cookie}; Path=${basePath || '/'}; Max-Age=${session.maxAgeSeconds}; HttpOnly; SameSite=Strict${secure}`
    return new Response(null, { status: 303, headers: { location: `${basePath}/`, 'set-cookie': cookie } })
  }
}

function jsonResponse(json: string, status: number, headers: Readonly<Record<string, string>> = {}): Response {
  return new Response(json, { status, headers: { 'content-type': 'application/json', ...headers } })
}

function unauthenticated(): RepriseError {
  return new RepriseError('UNAUTHENTICATED', 'a token must be given', {})
}

/** The same bytes, and a word when it is over, whoever ended it. */
function watched(body: ReadableStream<Uint8Array>, over: () => void): ReadableStream<Uint8Array> {
  const reader = body.getReader()
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { done, value } = await reader.read()
      if (!done) return controller.enqueue(value)
      over()
      controller.close()
    },
    async cancel(reason) {
      over()
      await reader.cancel(reason)
    },
  })
}
