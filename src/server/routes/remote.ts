// Work for programs in any language: steps of workflows and items of jobs that wait in a queue, leased to workers. A worker's
// result is stored before its request is answered: if this process then dies, the run receives that result, and no worker
// repeats the work.

import { hub, type Outcome, type Task } from '../../adapters/remote/hub.ts'
import { hostOf } from '../../engine/host/host.ts'
import { mayReach } from '../access.ts'
import { reachedId } from '../reach.ts'
import type { Call, Route } from '../route.ts'
import type { Schema } from '../schema.ts'
import * as shapes from '../shapes.ts'

const batchMax = 1000
const longestWaitMs = 25_000
const ttlMs: Schema = {
  type: 'integer',
  minimum: 1000,
  maximum: 600_000,
  default: 30_000,
  description: 'without a sign of life for this long, another worker gets it',
}
const taskId: Schema = { type: 'string', minLength: 1, maxLength: 64 }
const ids = (items: Schema): Schema => ({ type: 'array', items, minItems: 1, maxItems: batchMax })

export const remoteRoutes: readonly Route[] = [
  {
    method: 'GET',
    path: '/v1/remote',
    id: 'listRemote',
    tag: 'remote',
    summary: 'Queues in which work waits for workers outside, in this process',
    role: 'read',
    answer: shapes.answer({
      queues: shapes.list(shapes.answer({ queue: shapes.text, waiting: shapes.count, claimed: shapes.count })),
    }),
    call: ({ principal }) => ({ queues: hub.list().filter(({ queue }) => mayReach(principal, scopeOf(queue))) }),
  },
  {
    method: 'POST',
    path: '/v1/remote/{queue}/job',
    id: 'startRemoteJob',
    tag: 'remote',
    summary: 'Run a job here whose items are the entries of these timelines, and whose work is done by workers outside',
    role: 'write',
    body: shapes.object(
      {
        from: { ...ids({ ...shapes.text, minLength: 1 }), maxItems: 16, description: 'ids, and the ids below them' },
        concurrency: { type: 'integer', minimum: 1, maximum: batchMax, default: 16 },
        attempts: { type: 'integer', minimum: 1, maximum: 100, default: 5 },
      },
      ['from'],
    ),
    answer: shapes.answer({ job: shapes.text, isNew: { type: 'boolean' } }),
    once: 'engine',
    async call({ server, principal, params, body }) {
      const name = queueOf(params, principal)
      const {
        from,
        concurrency = 16,
        attempts = 5,
      } = body as { from: string[]; concurrency?: number; attempts?: number }
      for (const id of [`job/${name}`, ...from]) reachedId(principal, id.replace(/\/$/, ''))
      return { job: `job/${name}`, ...(await server.remoteJobs.start(name, { from, concurrency, attempts })) }
    },
  },
  {
    method: 'POST',
    path: '/v1/remote/{queue}/claim',
    id: 'claimRemote',
    tag: 'remote',
    summary: 'Take work that waits in a queue; `waitMs`: wait for the first',
    role: 'write',
    body: shapes.object({
      max: { type: 'integer', minimum: 1, maximum: batchMax, default: 1 },
      waitMs: { type: 'integer', minimum: 0, maximum: longestWaitMs, default: 0 },
      ttlMs,
    }),
    answer: shapes.answer({
      tasks: shapes.list(
        withTrace(
          shapes.answer({
            ...{ task: taskId, key: shapes.text, attempt: shapes.count, lost: shapes.count, input: shapes.any },
          }),
        ),
      ),
    }),
    once: 'answer',
    call: claim,
  },
  {
    method: 'POST',
    path: '/v1/remote/{queue}/heartbeat',
    id: 'heartbeatRemote',
    tag: 'remote',
    summary: 'A heartbeat for tasks in progress; tasks missing from the answer need not be finished',
    role: 'write',
    body: shapes.object({ tasks: ids(taskId), ttlMs, details: shapes.any }, ['tasks']),
    answer: shapes.answer({ alive: shapes.list(taskId), lost: shapes.list(taskId) }),
    once: 'engine',
    async call({ principal, params, body }) {
      const asked = body as { tasks: string[]; ttlMs?: number; details?: unknown }
      const alive = await hub.beat(queueOf(params, principal), asked.tasks, asked.ttlMs ?? 30_000, asked.details)
      return { alive, lost: asked.tasks.filter((id) => !alive.includes(id)) }
    },
  },
  {
    method: 'POST',
    path: '/v1/remote/{queue}/results',
    id: 'settleRemote',
    tag: 'remote',
    summary:
      'Report the outcome of a task: `result`, or `error` (with `retry: false` to give up). The answer means that it is durable',
    role: 'write',
    body: shapes.object(
      {
        results: ids(
          shapes.object(
            {
              task: taskId,
              result: shapes.any,
              error: { type: 'string', maxLength: 8192 },
              retry: { type: 'boolean' },
            },
            ['task'],
          ),
        ),
      },
      ['results'],
    ),
    answer: shapes.answer({ settled: shapes.list(taskId), lost: shapes.list(taskId) }),
    once: 'engine',
    call: settle,
  },
]

async function claim(call: Call) {
  const { engine, server, principal, params, body, signal } = call
  const queue = queueOf(params, principal)
  const { max = 1, waitMs = 0, ttlMs: ttl = 30_000 } = body as { max?: number; waitMs?: number; ttlMs?: number }
  const { clock } = hostOf(engine)
  const until = clock.elapsed() + waitMs
  for (;;) {
    const claimed = await hub.claim(queue, { max, ttlMs: ttl, waitMs: Math.max(0, until - clock.elapsed()), signal })
    const open: Task[] = []
    for (const task of claimed) if (!(await isKnown(server, task))) open.push(task)
    // Tasks settled before a crash are skipped; the worker keeps waiting for others.
    if (open.length > 0 || claimed.length === 0) {
      return { tasks: open.map(({ id: task, ...rest }) => taskOf(task, rest)) }
    }
  }
}

/** Present if the run is traced. */
function withTrace(task: Schema): Schema {
  const traceparent = { ...shapes.text, description: 'of the attempt, as W3C Trace Context writes it' }
  return { ...task, properties: { ...task.properties, traceparent } }
}

function taskOf(task: string, { key, attempt, traceparent, lost, input }: Omit<Task, 'id'>) {
  return { task, key, attempt, ...(traceparent !== undefined && { traceparent }), lost, input }
}

async function settle({ server, principal, params, body }: Call) {
  const queue = queueOf(params, principal)
  const { results } = body as { results: { task: string; result?: unknown; error?: string; retry?: boolean }[] }
  const settled: string[] = []
  const lost: string[] = []
  for (const { task: id, result, error, retry = true } of results) {
    const task = hub.find(queue, id)
    if (!task) {
      ;(hub.wasSettled(id) ? settled : lost).push(id)
      continue
    }
    const outcome: Outcome =
      error === undefined
        ? { kind: 'done', result: result ?? null }
        : { kind: 'failed', message: error, mayRetry: retry }
    const kept = (await server.answers.keep(keyOf(task, outcome.kind), outcome)) as Outcome
    hub.settle(queue, id, kept)
    settled.push(id)
  }
  return { settled, lost }
}

/** Settles a task whose result was stored before this process, or another, died. */
async function isKnown(server: Call['server'], task: Task): Promise<boolean> {
  for (const kind of ['done', 'failed'] as const) {
    const kept = (await server.answers.kept(keyOf(task, kind))) as Outcome | undefined
    if (!kept) continue
    hub.settle(task.queue, task.id, kept)
    return true
  }
  return false
}

/** A result is valid for every attempt, a failure only for its own. */
function keyOf({ queue, key, attempt }: Task, kind: Outcome['kind']): string {
  return `remote\n${queue}\n${key}${kind === 'done' ? '' : `\n${attempt}`}`
}

function scopeOf(queue: string): string {
  return `remote/${queue}`
}

function queueOf(params: Call['params'], principal: Call['principal']): string {
  reachedId(principal, scopeOf(params.queue!))
  return params.queue!
}
