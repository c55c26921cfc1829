// Handlers for the platforms: AWS Lambda, functions from a Request to a Response (Vercel, Next.js), and Cloudflare Workers.

import { isReprise, RepriseError } from '../../core/errors.ts'
import { aFunction, anObject, checkGivenOptions, checkList, checkValues, namesOf } from '../../core/options.ts'
import type { WorkReport } from '../../engine/api/work-until.ts'
import { checkDefinition, works } from '../../engine/model/definition.ts'
import { checkDurations, Invocations, type ServerlessOptions } from './invocations.ts'
import { isEqual, type SeenWakes, signatureHeader, verifyWake } from './signature.ts'

export interface RouteOptions extends ServerlessOptions {
  /**
   * The secret of wake-up requests: they are signed with it, or have the header `authorization: Bearer SECRET`, as those of
   * Vercel's scheduler have. Other requests are refused with 401. Null: a gateway in front of the route has checked them.
   */
  readonly secret: string | null
  /**
   * Keeps the function alive after its response, as `waitUntil` of Vercel does: signed requests are then answered with 202 at
   * once, so that their sender does not wait for the work. Default: the answer comes after the work, with its report.
   */
  readonly waitUntil?: (work: Promise<unknown>) => void
}

/** The part of Lambda's context that is used. */
export interface LambdaContext {
  readonly getRemainingTimeInMillis: () => number
}

const lambdaOptions = namesOf<ServerlessOptions>()('open work budget idle next')
const routeOptions = namesOf<RouteOptions>()('open work budget idle next secret waitUntil')

/** A wrong budget would otherwise be noticed by the platform's time limit. Throws INVALID_ARGUMENT. */
function checkHandler(where: string, options: ServerlessOptions, known: ReadonlySet<string>): void {
  checkGivenOptions(where, options, known)
  checkValues(
    where,
    { ...options, open: options.open ?? null },
    { open: [aFunction], next: [anObject], waitUntil: [aFunction] },
  )
  checkList(`the definitions of ${where}`, options.work)
  for (const definition of options.work) checkDefinition(definition, works, where)
  checkDurations(where, options)
}

/** Reserved for the answer, and for the difference between the platform's clock and ours. */
const lambdaMarginMs = 500

/**
 * A handler for AWS Lambda, for example as the target of EventBridge Scheduler. It returns the report of the work.
 * @example export const handler = lambdaHandler({ open: () => open(process.env.DATABASE_URL), work: [checkout] })
 */
export function lambdaHandler(
  options: ServerlessOptions,
): (event: unknown, context: LambdaContext) => Promise<WorkReport> {
  checkHandler('lambdaHandler()', options, lambdaOptions)
  const invocations = new Invocations(options)
  return async (_, context) => {
    const leftMs = typeof context?.getRemainingTimeInMillis === 'function' ? context.getRemainingTimeInMillis() : null
    if (Number.isFinite(leftMs)) return await invocations.invoke(leftMs! - lambdaMarginMs)
    const what = 'lambdaHandler(): the second argument must be the context of Lambda, which has the remaining time'
    throw new RepriseError('INVALID_ARGUMENT', what, {})
  }
}

/**
 * A route for Vercel, Next.js and every framework that turns a Request into a Response. It answers with the report of the work.
 * @example export const GET = routeHandler({ open: () => open(url), work: [checkout], secret: process.env.CRON_SECRET })
 */
export function routeHandler(options: RouteOptions): (request: Request) => Promise<Response> {
  checkHandler('routeHandler()', options, routeOptions)
  const invocations = new Invocations(options)
  const seen: SeenWakes = new Set()
  return (request) => answer(request, options, seen, () => invocations.invoke())
}

/** The part of Cloudflare's module handlers that is used. */
export interface CloudflareHandler<Env> {
  fetch(request: Request, env: Env): Promise<Response>
  scheduled(controller: unknown, env: Env): Promise<void>
}

/**
 * A module of Cloudflare Workers: `fetch` for wake-up requests, `scheduled` for cron triggers. Connections of one request cannot
 * be used by the next one there, so each invocation opens the engine and closes it.
 * @example export default cloudflareHandler((env) => ({ open: () => open(env.URL), work: [checkout], secret: env.SECRET }))
 */
export function cloudflareHandler<Env>(optionsOf: (env: Env) => RouteOptions): CloudflareHandler<Env> {
  if (typeof optionsOf !== 'function') {
    throw new RepriseError('INVALID_ARGUMENT', 'cloudflareHandler() needs a function from env to its options', {})
  }
  const checkedOf = (env: Env): RouteOptions => {
    const options = optionsOf(env)
    checkHandler('cloudflareHandler()', options, routeOptions)
    return options
  }
  const seen: SeenWakes = new Set()
  const invoke = async (options: RouteOptions): Promise<WorkReport> => {
    const invocations = new Invocations(options)
    try {
      return await invocations.invoke()
    } finally {
      await invocations.close()
    }
  }
  return {
    async fetch(request, env) {
      const options = checkedOf(env)
      return await answer(request, options, seen, () => invoke(options))
    },
    async scheduled(_, env) {
      await invoke(checkedOf(env))
    },
  }
}

async function answer(
  request: Request,
  { secret, waitUntil }: RouteOptions,
  seen: SeenWakes,
  work: () => Promise<WorkReport>,
): Promise<Response> {
  checkSecret(secret)
  if (!isRequest(request)) {
    const what = 'the handler of a route takes a Request of the Fetch API: a framework with (req, res) needs an adapter'
    throw new RepriseError('INVALID_ARGUMENT', what, {})
  }
  try {
    if (secret !== null) await check(request, secret, seen)
  } catch (error) {
    if (!isReprise(error, 'UNAUTHENTICATED')) throw error
    return Response.json({ code: error.code, message: error.message }, { status: 401 })
  }
  if (!waitUntil || !request.headers.has(signatureHeader)) return Response.json(await work())
  waitUntil(work())
  return Response.json({ accepted: true }, { status: 202 })
}

/** Not by its class: a framework may have its own. */
function isRequest(request: unknown): request is Request {
  const { headers, text } = (request ?? {}) as Partial<Request>
  return typeof headers?.get === 'function' && typeof text === 'function'
}

async function check(request: Request, secret: string, seen: SeenWakes): Promise<void> {
  const bearer = request.headers.get('authorization')
  if (bearer !== null && isEqual(bearer, `Bearer ${secret}`)) return
  await verifyWake(secret, request.headers.get(signatureHeader), await request.text(), { seen })
}

/**
 * An empty or missing secret, often an unset variable, would let everyone in. Checked by the request: builds load the module
 * without the variables of its environment.
 */
function checkSecret(secret: unknown): void {
  if (secret === null || (typeof secret === 'string' && secret.length >= 16)) return
  const what = 'the secret of a route must be text of at least 16 characters, or null if a gateway checks the requests'
  throw new RepriseError('INVALID_ARGUMENT', what, {})
}
