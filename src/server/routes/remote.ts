// Work for programs in any language: steps of workflows and items of jobs that wait in a queue, leased to workers by any server
// on the store. A worker's result is stored before its request is answered: if the process of the run then dies, the run
// receives that result, and no worker repeats the work.

import { boardOf, type Outcome, type Task } from '../../adapters/remote/board.ts'
import { hostOf } from '../../engine/host/host.ts'
import { mayReach } from '../access.ts'
import type { Call, Route } from '../route.ts'
import type { Schema } from '../schema.ts'
import { reachedId } from '../scope-filter.ts'
import * as shapes from '../shapes.ts'

const batchMax = 1000
const longestWaitMs = 25_000
const ttlMs: Schema = {
  type: 'integer',
  minimum: 1000,
  maximum: 600_000,
  default: 30_000,
  description: 'after this long without a heartbeat, another worker receives it',
}
const taskId: Schema = { type: 'string', minLength: 1, maxLength: 64 }
const ids = (items: Schema): Schema => ({ type: 'array', items, minItems: 1, maxItems: batchMax })

export const remoteRoutes: readonly Route[] = [
  {
    method: 'GET',
    path: '/v1/remote',
    id: 'listRemote',
    tag: 'remote',
    summary: 'Queues in which work waits for outside workers',
    role: 'read',
    answer: shapes.answer({
      queues: shapes.list(shapes.answer({ queue: shapes.text, waiting: shapes.count, claimed: shapes.count })),
    }),
    async call({ engine, principal }) {
      const queues = await boardOf(hostOf(engine)).list()
      return { queues: queues.filter(({ queue }) => mayReach(principal, scopeOf(queue))) }
    },
  },
  {
    method: 'POST',
    path: '/v1/remote/{queue}/job',
    id: 'startRemoteJob',
    tag: 'remote',
    summary: 'Run a job here whose items are the entries of these timelines, processed by outside workers',
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
    summary: 'Take waiting work from a queue; `waitMs`: wait for the first',
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
    async call({ engine, principal, params, body }) {
      const request = body as { tasks: string[]; ttlMs?: number; details?: unknown }
      const queue = queueOf(params, principal)
      const alive = await boardOf(hostOf(engine)).beat(queue, request.tasks, request.ttlMs ?? 30_000, request.details)
      return { alive, lost: request.tasks.filter((id) => !alive.includes(id)) }
    },
  },
  {
    method: 'POST',
    path: '/v1/remote/{queue}/results',
    id: 'settleRemote',
    tag: 'remote',
    summary:
      'Report the outcome of a task: `result`, or `error` (with `retry: false` to give up). The report is durable when the request is answered',
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

async function claim({ engine, principal, params, body, signal }: Call) {
  const queue = queueOf(params, principal)
  const { max = 1, waitMs = 0, ttlMs: ttl = 30_000 } = body as { max?: number; waitMs?: number; ttlMs?: number }
  const tasks = await boardOf(hostOf(engine)).claim(queue, { max, ttlMs: ttl, waitMs, signal })
  return { tasks: tasks.map(({ id: task, ...rest }) => taskOf(task, rest)) }
}

/** Present if the run is traced. */
function withTrace(task: Schema): Schema {
  const traceparent = { ...shapes.text, description: 'of the attempt, in the format of W3C Trace Context' }
  return { ...task, properties: { ...task.properties, traceparent } }
}

function taskOf(task: string, { key, attempt, traceparent, lost, input }: Omit<Task, 'id'>) {
  return { task, key, attempt, ...(traceparent !== undefined && { traceparent }), lost, input }
}

async function settle({ engine, principal, params, body }: Call) {
  const queue = queueOf(params, principal)
  const board = boardOf(hostOf(engine))
  const { results } = body as { results: { task: string; result?: unknown; error?: string; retry?: boolean }[] }
  const isSettled = await Promise.all(
    results.map(({ task, result, error, retry = true }) => {
      const outcome: Outcome =
        error === undefined
          ? { kind: 'done', result: result ?? null }
          : { kind: 'failed', message: error, mayRetry: retry }
      return board.settle(queue, task, outcome)
    }),
  )
  const tasks = (is: boolean) => results.filter((_, i) => isSettled[i] === is).map(({ task }) => task)
  return { settled: tasks(true), lost: tasks(false) }
}

function scopeOf(queue: string): string {
  return `remote/${queue}`
}

function queueOf(params: Call['params'], principal: Call['principal']): string {
  reachedId(principal, scopeOf(params.queue!))
  return params.queue!
}
