// Starts, signals and cancellations that are written in a transaction of the application (engine/writing/request-drain.ts): how
// a sender writes them, and how a worker carries them out.

import { timelineId } from '../../../core/coordinate.ts'
import { toMs } from '../../../core/duration.ts'
import { RepriseError } from '../../../core/errors.ts'
import { checkOptions, checkValues } from '../../../core/options.ts'
import { checkAttributes } from '../../../core/store/argument-checks.ts'
import type { RequestRow } from '../../../core/store/ports.ts'
import type { Host as EngineHost } from '../../../engine/host/host.ts'
import type { Enlistment, RequestDraft } from '../../../engine/model/enlisting.ts'
import { validated } from '../../../engine/model/schema.ts'
import { newId } from '../../../engine/storage/kernel.ts'
import { unknownVerb } from '../../../engine/writing/request-drain.ts'
import type { AnyWorkflow } from '../context.ts'
import { queueOf } from '../names.ts'
import { type StartOptions, startOptions, startValues } from '../options.ts'
import type { WorkflowRun } from './run.ts'
import { foundRun } from './starting.ts'

/** The parts of the process's workflow host that requests use. */
interface RequestHost {
  readonly engine: EngineHost
  work(definition: AnyWorkflow): void
  handle<Output>(definition: AnyWorkflow, id: string): WorkflowRun<Output>
  /** Starts the run, and settles the request in the same commit. False: the run exists. */
  startRequested(definition: AnyWorkflow, request: RequestRow, input: unknown, options: StartOptions): Promise<boolean>
  poke(timeline: string): void
}

interface StartPayload {
  readonly input?: unknown
  readonly options: StartOptions
}

/** The request of a start. The input is checked here, so that the transaction fails, and again where the run starts. */
export async function enlistStart<Output>(
  host: RequestHost,
  definition: AnyWorkflow,
  input: unknown,
  given: StartOptions & { readonly key?: string },
): Promise<Enlistment<WorkflowRun<Output>>> {
  const { key, ...options } = given
  check(host.engine, definition, options)
  checkKey(key)
  if (definition.options.input) await validated(definition.options.input, `the input of ${definition.name}`, input)
  const { id = key ?? newId(host.engine.random), here, ...rest } = options
  checkRunId(definition, id)
  if (here !== false) host.work(definition)
  const address = { verb: 'start', target: queueOf(definition), id }
  const payload: StartPayload = { ...(input !== undefined && { input }), options: rest }
  const data = host.engine.requests.seal(address, payload)
  return {
    draft: { ...address, topic: null, data, key: key ?? null },
    id,
    timeline: definition.prefix + id,
    handle: () => foundRun(host.engine.codec, host.handle<Output>(definition, id), input, options),
  }
}

export function enlistMail(
  engine: EngineHost,
  definition: AnyWorkflow,
  mail: { readonly verb: 'signal' | 'cancel'; readonly id: string; readonly data: unknown; readonly key?: string },
): RequestDraft {
  const { verb, id, key = newId(engine.random) } = mail
  checkRunId(definition, id)
  checkKey(key)
  const address = { verb, target: queueOf(definition), id }
  return { ...address, topic: null, data: engine.requests.seal(address, mail.data), key }
}

/** Carries out the requests for runs of this definition. */
export function serveRequests(host: RequestHost, definition: AnyWorkflow): void {
  host.engine.requests.serve(queueOf(definition), async (request) => {
    checkKey(request.key ?? undefined)
    switch (request.verb) {
      case 'start':
        return await start(host, definition, request)
      case 'signal':
      case 'cancel':
        return await mail(host, definition, request)
      default:
        throw unknownVerb(request)
    }
  })
}

async function start(
  host: RequestHost,
  definition: AnyWorkflow,
  request: RequestRow,
): Promise<'settled' | 'done before'> {
  const { input, options } = host.engine.requests.open<StartPayload>(request, (json) => {
    return { input: json, options: optionsOf(request) }
  })
  check(host.engine, definition, options)
  const checked = definition.options.input
    ? await validated(definition.options.input, `the input of ${definition.name}`, input)
    : input
  const isNew = await host.startRequested(definition, request, checked, options)
  if (isNew) return 'settled'
  await foundRun(host.engine.codec, host.handle(definition, request.id), checked, options)
  return 'done before'
}

async function mail(host: RequestHost, definition: AnyWorkflow, request: RequestRow): Promise<'settled'> {
  const data = host.engine.requests.open<unknown>(request, (json) => mailOf(request, json))
  const run = host.handle(definition, request.id)
  await run.refuseEnded()
  const id = request.key ?? newId(host.engine.random)
  const message = host.engine.message(run.timeline, request.verb, data, id)
  const settled = await host.engine.requests.deliver(request, message)
  host.poke(run.timeline)
  return settled
}

function mailOf({ verb, topic }: RequestRow, json: unknown): unknown {
  if (verb === 'cancel') return { reason: typeof json === 'string' ? json : 'cancelled' }
  if (topic === null || topic === '') throw new RepriseError('INVALID_ARGUMENT', 'a signal must have a name')
  return json === undefined ? { name: topic } : { name: topic, value: json }
}

function optionsOf({ options }: RequestRow): StartOptions {
  const given: unknown = options === null ? {} : JSON.parse(options)
  if (typeof given === 'object' && given !== null && !Array.isArray(given)) return given
  throw new RepriseError('INVALID_ARGUMENT', 'the options of a start must be a JSON object')
}

/** Every value that would be refused where the run starts, so that the transaction fails instead. */
function check({ kernel }: EngineHost, { name }: AnyWorkflow, options: StartOptions): void {
  checkOptions(`run of ${name}`, options, startOptions)
  checkValues(`run of ${name}`, options, startValues)
  if (options.timeout !== undefined) toMs(options.timeout, 'timeout')
  if (options.delay !== undefined) toMs(options.delay, 'delay')
  if (options.attributes !== undefined) checkAttributes(options.attributes, kernel.limits)
  if (options.ifExists !== 'restart') return
  const what = 'a run is not restarted by a transaction: start another run, or restart it after the commit'
  throw new RepriseError('INVALID_ARGUMENT', what, { workflow: name })
}

/** Throws INVALID_ID. */
function checkRunId({ prefix }: AnyWorkflow, id: string): void {
  timelineId(id)
  timelineId(prefix + id)
}

function checkKey(key: unknown): void {
  if (key === undefined || (typeof key === 'string' && key !== '' && !/\p{Cc}/u.test(key))) return
  throw new RepriseError(
    'INVALID_ARGUMENT',
    'key must be a text of at least one character, without control characters',
    {},
  )
}
