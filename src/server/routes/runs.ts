// Starts runs of the server's definitions, and waits for runs to end.

import { createHash } from 'node:crypto'
import { RepriseError } from '../../core/errors.ts'
import { isWithin } from '../../core/history/scope.ts'
import type { Head } from '../../core/store/ports.ts'
import type { Reprise } from '../../engine/api/reprise.ts'
import { hostOf } from '../../engine/host/host.ts'
import { invalid } from '../../engine/model/schema.ts'
import { sleep } from '../../lib/waiting.ts'
import { type StartableDefinition, startable } from '../../operations/definitions.ts'
import { entriesAfter } from '../../operations/history.ts'
import { runOf } from '../../operations/runs.ts'
import type { Call, Route } from '../route.ts'
import { mismatch, type Schema } from '../schema.ts'
import { reachedId, scopesFor } from '../scope-filter.ts'
import * as shapes from '../shapes.ts'

const longestWaitMs = 25_000
const pollMs = 100

export const runRoutes: readonly Route[] = [
  {
    method: 'GET',
    path: '/v1/definitions',
    id: 'listDefinitions',
    tag: 'runs',
    summary: 'Definitions whose runs can be started: those of the server, and workflows of live workers',
    role: 'read',
    answer: shapes.answer({
      definitions: shapes.list({
        ...shapes.answer({
          kind: shapes.text,
          name: shapes.text,
          isHere: { type: 'boolean', description: 'the server has its code' },
          workers: { type: 'integer', nullable: true, description: 'live workers; null: the server runs it itself' },
          schema: { type: 'object', nullable: true, description: 'JSON Schema of the input, if it is known' },
        }),
      }),
    }),
    call: listDefinitions,
  },
  {
    method: 'POST',
    path: '/v1/runs',
    id: 'startRun',
    tag: 'runs',
    summary:
      'Start a run of a definition of the server, or of a workflow of a live worker. Workers execute workflows; everything else runs here',
    role: 'write',
    status: 201,
    body: shapes.object(
      {
        name: { ...shapes.text, minLength: 1, description: 'of the definition' },
        kind: { ...shapes.text, description: 'required if several kinds have this name' },
        id: { ...shapes.text, minLength: 1, description: 'of the run, for workflows: one run per id' },
        input: shapes.any,
        attributes: { type: 'object', additionalProperties: { ...shapes.text } },
        priority: { type: 'integer', minimum: -1000, maximum: 1000 },
        delayMs: { type: 'integer', minimum: 0, maximum: 31_536_000_000 },
      },
      ['name'],
    ),
    answer: shapes.answer({ timeline: shapes.text, kind: shapes.text, name: shapes.text }),
    once: 'answer',
    call: start,
  },
  {
    method: 'GET',
    path: '/v1/timelines/{timeline}/result',
    id: 'awaitResult',
    tag: 'runs',
    summary: 'The outcome of an ended run; `waitMs`: wait for its end',
    role: 'read',
    query: { waitMs: { type: 'integer', minimum: 0, maximum: longestWaitMs, default: 0 } },
    answer: shapes.answer({ timeline: shapes.text, status: shapes.text, isEnded: { type: 'boolean' } }),
    call: awaitResult,
  },
]

async function start(call: Call) {
  const { principal, body } = call
  const request = body as { name: string; kind?: string; id?: string; input?: unknown } & Record<string, unknown>
  const definition = await find(call, request.name, request.kind)
  const { kind, scope } = definition
  if (!definition.isHere && definition.schema) refuseMismatch(definition.schema, request.name, request.input)
  const { attributes, priority, delayMs } = request
  if (kind !== 'workflow') {
    if (request.id !== undefined || priority !== undefined || delayMs !== undefined) {
      throw new RepriseError('INVALID_ARGUMENT', `a ${kind} accepts no id, priority or delay`, { kind })
    }
    const timeline = reachedId(principal, scope.replace(/\/$/, ''))
    const run = await definition.start(request.input, attributes === undefined ? {} : { attributes })
    // Its outcome is in its history.
    ;(run as { result(): Promise<unknown> }).result().catch(() => undefined)
    return { timeline, kind, name: request.name }
  }
  const id = request.id ?? idFor(call)
  const timeline = reachedId(principal, `${scope}${id}`)
  await definition.start(request.input, {
    id,
    here: false,
    ...(attributes !== undefined && { attributes }),
    ...(priority !== undefined && { priority }),
    ...(delayMs !== undefined && { delay: delayMs }),
  })
  return { timeline, kind, name: request.name, id }
}

/**
 * Only the worker has the schema itself; this checks the part of its JSON form that the API's own checks know. Where several
 * types are allowed, nothing is checked.
 */
function refuseMismatch(schema: Readonly<Record<string, unknown>>, name: string, input: unknown): void {
  if (JSON.stringify(schema).includes('"type":[')) return
  let what: string | null
  try {
    what = mismatch(schema as Schema, input ?? null, 'input')
  } catch {
    // A pattern in the syntax of another library.
    return
  }
  if (what === null) return
  const [, path = '', message = what] = /^input[.]?(\S*) (.*)$/s.exec(what) ?? []
  throw invalid(`the input of ${name}`, [{ message, path: path === '' ? [] : path.split('.') }])
}

/** A repeated request with the same key returns the same run. */
function idFor({ key, principal }: Call): string {
  if (key === undefined) return crypto.randomUUID()
  return createHash('sha256').update(`run\n${principal.name}\n${key}`).digest('hex').slice(0, 32)
}

async function find({ engine, server }: Call, name: string, kind: string | undefined): Promise<StartableDefinition> {
  const found = (await startable(engine, server.definitions)).filter(
    (each) => each.name === name && (kind ?? each.kind) === each.kind,
  )
  if (found.length === 1) return found[0]!
  if (found.length > 1) {
    const kinds = found.map((each) => each.kind).join(', ')
    throw new RepriseError('INVALID_ARGUMENT', `${name} is the name of several definitions: set kind (${kinds})`, {})
  }
  const what = `neither this server nor a live worker has a definition ${name}: pass it to serve(), or its module to reprise serve with --module, or start a worker that has it`
  throw new RepriseError('NOT_FOUND', what, { name })
}

/** Runs whose input may serve as an example, the most recently changed first. */
const examplesTried = 3

/** The input of an earlier run that the caller reaches; undefined: there is none. */
async function exampleOf({ engine, server, principal }: Call, { kind, scope }: StartableDefinition): Promise<unknown> {
  const { rows } = await server.index.find(principal, { kinds: [kind], text: scope }, examplesTried)
  for (const { timeline } of rows.filter((row) => isWithin(scope, row.timeline))) {
    const head = await engine.head(timeline)
    if (!head || head.floor > 0) continue
    for await (const { data } of entriesAfter(engine, head, 0)) {
      const { input } = (data ?? {}) as { readonly input?: unknown }
      if (input !== undefined) return input
      break
    }
  }
  return undefined
}

async function listDefinitions(call: Call) {
  const all = await startable(call.engine, call.server.definitions)
  const reached = all.filter(({ scope }) => scopesFor(call.principal, scope).length > 0)
  return {
    definitions: await Promise.all(
      reached.map(async (each) => {
        const { kind, name, isHere, workers, schema } = each
        // An unreadable history gives no example, and does not hide the definition.
        const example = schema === null ? await exampleOf(call, each).catch(() => undefined) : undefined
        return { kind, name, isHere, workers, schema, ...(example !== undefined && { example }) }
      }),
    ),
  }
}

async function awaitResult(call: Call) {
  const { engine, query, signal } = call
  const { clock } = hostOf(engine)
  const until = clock.elapsed() + (query.number('waitMs') ?? 0)
  for (;;) {
    const head = await call.head()
    const { timeline, status } = head
    const unfinished = hostOf(engine).models.find(timeline)?.unfinished
    if (!unfinished)
      throw new RepriseError('INVALID_ARGUMENT', `${timeline} has a kind that does not end`, { timeline })
    if (!unfinished.includes(status)) return { timeline, status, isEnded: true, ...(await resultOf(engine, head)) }
    const leftMs = until - clock.elapsed()
    if (leftMs <= 0 || signal.aborted) return { timeline, status, isEnded: false }
    await sleep(clock, Math.min(leftMs, pollMs))
  }
}

/** The result of a workflow run, or its error. */
async function resultOf(engine: Reprise, head: Head): Promise<object> {
  if (hostOf(engine).models.find(head.timeline)?.kind !== 'workflow') return {}
  try {
    return { result: (await runOf(engine, head, 'result').result({ timeout: 10_000 })) ?? null }
  } catch (error) {
    const { name, message, code } = error as Error & { readonly code?: string }
    return { error: { name, message, ...(code !== undefined && { code }) } }
  }
}
