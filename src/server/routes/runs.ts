// Starts runs of the server's definitions, and waits for runs to end.

import { createHash } from 'node:crypto'
import { RepriseError } from '../../core/errors.ts'
import type { Head } from '../../core/store/ports.ts'
import type { Reprise } from '../../engine/api/reprise.ts'
import { hostOf } from '../../engine/host/host.ts'
import { runs } from '../../engine/model/definition.ts'
import { describes, type Model } from '../../engine/model/model.ts'
import { sleep } from '../../lib/waiting.ts'
import { runOf } from '../../operations/runs.ts'
import { reachedId } from '../reach.ts'
import type { Call, Route } from '../route.ts'
import * as shapes from '../shapes.ts'

const longestWaitMs = 25_000
const lookEveryMs = 100

interface Startable {
  readonly name: string
  readonly [describes]: Model
  [runs](engine: unknown, input: unknown, options: Readonly<Record<string, unknown>>): unknown
}

export const runRoutes: readonly Route[] = [
  {
    method: 'POST',
    path: '/v1/runs',
    id: 'startRun',
    tag: 'runs',
    summary:
      'Start a run of a definition that the server has. A run of a workflow is left to the workers; everything else runs here',
    role: 'write',
    status: 201,
    body: shapes.object(
      {
        name: { ...shapes.text, minLength: 1, description: 'of the definition' },
        kind: { ...shapes.text, description: 'where several kinds have this name' },
        id: { ...shapes.text, minLength: 1, description: 'of the run, for workflows: there is one under an id' },
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
    summary: 'What became of a run, once it has ended; `waitMs`: wait for that',
    role: 'read',
    query: { waitMs: { type: 'integer', minimum: 0, maximum: longestWaitMs, default: 0 } },
    answer: shapes.answer({ timeline: shapes.text, status: shapes.text, isEnded: { type: 'boolean' } }),
    call: awaitResult,
  },
]

async function start(call: Call) {
  const { engine, server, principal, body } = call
  const asked = body as { name: string; kind?: string; id?: string; input?: unknown } & Record<string, unknown>
  const definition = find(server.definitions, asked.name, asked.kind)
  const { kind, scope } = definition[describes]
  const { attributes, priority, delayMs } = asked
  if (kind !== 'workflow') {
    if (asked.id !== undefined || priority !== undefined || delayMs !== undefined) {
      throw new RepriseError('INVALID_ARGUMENT', `a ${kind} takes no id, priority or delay`, { kind })
    }
    const timeline = reachedId(principal, scope.replace(/\/$/, ''))
    const run = await definition[runs](hostOf(engine), asked.input, attributes === undefined ? {} : { attributes })
    // Its outcome is in its history.
    ;(run as { result(): Promise<unknown> }).result().catch(() => undefined)
    return { timeline, kind, name: asked.name }
  }
  const id = asked.id ?? idFor(call)
  const timeline = reachedId(principal, `${scope}${id}`)
  await definition[runs](hostOf(engine), asked.input, {
    id,
    here: false,
    ...(attributes !== undefined && { attributes }),
    ...(priority !== undefined && { priority }),
    ...(delayMs !== undefined && { delay: delayMs }),
  })
  return { timeline, kind, name: asked.name, id }
}

/** A repeated request with the same key returns the same run. */
function idFor({ key, principal }: Call): string {
  if (key === undefined) return crypto.randomUUID()
  return createHash('sha256').update(`run\n${principal.name}\n${key}`).digest('hex').slice(0, 32)
}

function find(definitions: readonly unknown[], name: string, kind: string | undefined): Startable {
  const startable = definitions.filter(isStartable)
  const found = startable.filter(
    (each) => each.name === name && (kind ?? each[describes].kind) === each[describes].kind,
  )
  const distinct = [...new Set(found)]
  if (distinct.length === 1) return distinct[0]!
  if (distinct.length > 1) {
    const kinds = distinct.map((each) => each[describes].kind).join(', ')
    throw new RepriseError('INVALID_ARGUMENT', `${name} is the name of several definitions: set kind (${kinds})`, {})
  }
  const what = `this server has no definition ${name}: pass it to serve(), or its module to reprise serve with --module`
  throw new RepriseError('NOT_FOUND', what, { name })
}

function isStartable(value: unknown): value is Startable {
  if (typeof value !== 'object' || value === null) return false
  const { name, [runs]: run, [describes]: model } = value as Partial<Startable>
  return typeof name === 'string' && typeof run === 'function' && model !== undefined && !Array.isArray(model)
}

async function awaitResult(call: Call) {
  const { engine, query, signal } = call
  const { clock } = hostOf(engine)
  const until = clock.elapsed() + (query.number('waitMs') ?? 0)
  for (;;) {
    const head = await call.head()
    const { timeline, status } = head
    const unfinished = hostOf(engine).models.find(timeline)?.unfinished
    if (!unfinished) throw new RepriseError('INVALID_ARGUMENT', `${timeline} is nothing that ends`, { timeline })
    if (!unfinished.includes(status)) return { timeline, status, isEnded: true, ...(await resultOf(engine, head)) }
    const leftMs = until - clock.elapsed()
    if (leftMs <= 0 || signal.aborted) return { timeline, status, isEnded: false }
    await sleep(clock, Math.min(leftMs, lookEveryMs))
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
