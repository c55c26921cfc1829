// The store as a whole: workers, queues, schedules, health, and the caller's own identity.

import { timelineId } from '../../core/coordinate.ts'
import { type ErrorCode, errorCodes, explain, RepriseError } from '../../core/errors.ts'
import { hostOf } from '../../engine/host/host.ts'
import { unfinishedVerify } from '../../engine/tools/verify/progress.ts'
import { realTime, withinOrFail } from '../../lib/waiting.ts'
import { feedConsumers } from '../../operations/consumers.ts'
import { lettersOf, withLetters } from '../../operations/letters.ts'
import { packageVersion } from '../../operations/package-info.ts'
import { queuesOf } from '../../operations/queues.ts'
import { schedulesOf } from '../../operations/schedules.ts'
import { describeWorkers } from '../../operations/workers.ts'
import { type Access, loginPath } from '../access.ts'
import type { Call, Route, ServerParts } from '../route.ts'
import type { Schema } from '../schema.ts'
import { reached, scopesFor } from '../scope-filter.ts'
import { settingsOf } from '../settings.ts'
import * as shapes from '../shapes.ts'

const readyWithinMs = 2000
const timelines: Schema = {
  type: 'array',
  items: shapes.text,
  minItems: 1,
  maxItems: 1000,
  description: 'only these; a token for part of the store must name them',
}

export const systemRoutes: readonly Route[] = [
  {
    method: 'GET',
    path: '/healthz',
    id: 'health',
    tag: 'system',
    summary: 'The process is up',
    role: null,
    isProbe: true,
    answer: shapes.answer({ ok: { type: 'boolean' } }),
    call: () => ({ ok: true }),
  },
  {
    method: 'GET',
    path: '/readyz',
    id: 'ready',
    tag: 'system',
    summary: 'The store responds, and this process was not declared dead; 503 otherwise',
    role: null,
    isProbe: true,
    answer: shapes.answer({ ok: { type: 'boolean' } }),
    async call({ engine }) {
      await withinOrFail(realTime, readyWithinMs, checkReady(engine), () => {
        const what = `the store did not answer within ${readyWithinMs} ms`
        return new RepriseError('STORE_UNREACHABLE', what, {})
      })
      return { ok: true }
    },
  },
  {
    method: 'GET',
    path: '/metrics',
    id: 'metrics',
    tag: 'system',
    summary: 'Figures in the text format of Prometheus',
    role: 'read',
    isWhole: true,
    answer: { type: 'string' },
    answerType: 'text/plain; version=0.0.4; charset=utf-8',
    call: ({ engine, server }) => server.metrics.write(engine),
  },
  {
    method: 'GET',
    path: '/v1',
    id: 'about',
    tag: 'system',
    summary: 'The permissions of the caller, and the kinds of timelines that this server supports',
    role: 'read',
    answer: shapes.answer({
      name: shapes.text,
      role: shapes.text,
      kinds: shapes.list(shapes.text),
      runs: { ...shapes.list(shapes.text), description: 'those of the kinds that start and end' },
      namespaces: {
        ...shapes.list(shapes.text),
        description: 'namespaces that the caller may name; empty: there is only one',
      },
      version: shapes.text,
    }),
    call({ engine, principal, server }) {
      const all = hostOf(engine).models.all()
      const kinds = [...new Set(all.map(({ kind }) => kind))].sort()
      const runs = [...new Set(all.flatMap(({ kind, unfinished }) => (unfinished ? [kind] : [])))].sort()
      const { namespaces = [] } = principal
      return { ...principal, namespaces, readOnly: server.readOnly, kinds, runs, version: packageVersion() }
    },
  },
  {
    method: 'GET',
    path: '/v1/openapi.json',
    id: 'document',
    tag: 'system',
    summary: 'This document',
    role: null,
    answer: { type: 'object' },
    call: ({ server }) => server.document(),
  },
  {
    method: 'GET',
    path: '/v1/errors',
    id: 'listErrors',
    tag: 'system',
    summary: 'Every error code, with its remedy',
    role: null,
    answer: shapes.answer({ errors: shapes.list(shapes.answer({ code: shapes.text, hint: { type: 'string' } })) }),
    call: () => ({ errors: errorCodes().map((code) => explain(code)) }),
  },
  {
    method: 'GET',
    path: '/v1/errors/{code}',
    id: 'explainError',
    tag: 'system',
    summary: 'The meaning of an error code, and its remedy',
    role: null,
    answer: shapes.answer({ code: shapes.text, remedy: shapes.text, hint: { type: 'string' } }),
    call({ params }) {
      const code = params.code!
      if (!(errorCodes() as readonly string[]).includes(code)) {
        throw new RepriseError('NOT_FOUND', `there is no error code ${code.slice(0, 80)}`, {})
      }
      return explain(code as ErrorCode)
    },
  },
  {
    method: 'POST',
    path: '/v1/links',
    id: 'makeLink',
    tag: 'system',
    summary: 'A link that begins a session of one browser, once, within ten minutes, as the caller',
    role: 'read',
    status: 201,
    answer: shapes.answer({ path: shapes.text, until: shapes.millis }),
    call({ server, principal }) {
      const { code, until } = accessOf(server).link(principal.name)
      return { path: loginPath(server.basePath, code), until }
    },
  },
  {
    method: 'POST',
    path: '/v1/sessions',
    id: 'beginSession',
    tag: 'system',
    summary: 'A session, to be sent as a Bearer token, for the code of a link, or as the caller',
    role: null,
    status: 201,
    body: shapes.object({ code: shapes.text }),
    answer: shapes.answer({ session: shapes.text, until: shapes.millis }),
    async call({ server, request, body }) {
      const access = accessOf(server)
      const { code } = body as { readonly code?: string }
      const isFirst = (id: string) => server.answers.isFirst(`link\n${id}`)
      const session = code === undefined ? access.sessionOf(request) : await access.redeem(code, isFirst)
      if (session) return session
      if (code === undefined && request.header('authorization') === null) {
        throw new RepriseError('INVALID_ARGUMENT', 'pass the code of a link, or a token in the header', {})
      }
      const what = code === undefined ? 'a session requires a token' : 'the link was already used, or has expired'
      throw new RepriseError('UNAUTHENTICATED', what, {})
    },
  },
  {
    method: 'GET',
    path: '/v1/workers',
    id: 'listWorkers',
    tag: 'system',
    summary: 'Worker processes and whether they make progress',
    role: 'read',
    isWhole: true,
    query: { all: { type: 'boolean', description: 'also former workers' } },
    answer: shapes.answer({ now: shapes.millis, workers: shapes.list(shapes.answer({ id: shapes.text })) }),
    async call({ engine, query }) {
      const { now, workers } = await describeWorkers(engine, { all: query.flag('all') })
      return { now, workers }
    },
  },
  {
    method: 'GET',
    path: '/v1/queues',
    id: 'listQueues',
    tag: 'system',
    summary: 'The waiting work of each queue, and how long it has waited',
    role: 'read',
    isWhole: true,
    answer: shapes.answer({ queues: shapes.list(shapes.answer({ queue: shapes.text, due: shapes.count })) }),
    call: async ({ engine, server }) => ({ queues: await queuesOf(engine, await server.index.workable()) }),
  },
  {
    method: 'GET',
    path: '/v1/schedules',
    id: 'listSchedules',
    tag: 'system',
    summary: 'Schedules and the next due time of each',
    role: 'read',
    answer: shapes.answer({ schedules: shapes.list(shapes.answer({ schedule: shapes.text, timeline: shapes.text })) }),
    async call({ engine, principal }) {
      return { schedules: await schedulesOf(engine, (scope) => scopesFor(principal, scope)) }
    },
  },
  {
    method: 'GET',
    path: '/v1/consumers',
    id: 'listConsumers',
    tag: 'system',
    summary: 'Readers of the feed and the lag of each',
    role: 'read',
    isWhole: true,
    answer: shapes.answer({ consumers: shapes.list(shapes.answer({ name: shapes.text, behind: shapes.count })) }),
    call: async ({ engine }) => ({ consumers: await feedConsumers(engine) }),
  },
  {
    method: 'GET',
    path: '/v1/caches',
    id: 'listCaches',
    tag: 'system',
    summary: 'Hits and misses of build tools, and of memos in the process of this server, since it started',
    role: 'read',
    isWhole: true,
    answer: shapes.answer({
      caches: shapes.list(shapes.answer({ door: shapes.text, hits: shapes.count, misses: shapes.count })),
      memos: shapes.list(
        shapes.answer({
          memo: shapes.text,
          hits: shapes.count,
          misses: shapes.count,
          missed: {
            ...shapes.list(shapes.answer({ at: shapes.millis, why: { type: 'string' } })),
            description: 'the latest misses, newest first, with the inputs that differ from the last result',
          },
        }),
      ),
    }),
    call: async ({ server }) => ({ caches: server.lookups.list(), memos: await server.lookups.memos() }),
  },
  {
    method: 'GET',
    path: '/v1/tiers',
    id: 'listTiers',
    tag: 'system',
    summary: 'Chunks by tier, planned moves to colder tiers, and requests to object stores; moves nothing',
    role: 'operate',
    isWhole: true,
    isLong: true,
    answer: shapes.answer({
      tiers: shapes.list(
        shapes.answer({ name: shapes.text, chunks: shapes.count, bytes: shapes.count, requests: shapes.any }),
      ),
      history: shapes.answer({ segments: shapes.count, bytes: shapes.count }),
    }),
    call: async ({ engine }) => await engine.tiers({ dryRun: true }),
  },
  {
    method: 'GET',
    path: '/v1/settings',
    id: 'listSettings',
    tag: 'system',
    summary: 'The settings of this server and their origins, without secrets',
    role: 'read',
    isWhole: true,
    answer: shapes.answer({
      settings: shapes.list(
        shapes.answer({
          name: shapes.text,
          value: shapes.any,
          from: {
            type: 'string',
            description: 'default, option, environment, command line, program, stored, declared, kind or usual',
          },
        }),
      ),
    }),
    async call({ engine, principal, server }) {
      // The process's settings are hidden from tenants.
      const ofHost = principal.namespaces ? [] : server.ofHost
      return { settings: await settingsOf(engine, server.given, ofHost) }
    },
  },
  {
    method: 'GET',
    path: '/v1/dead-letters',
    id: 'listAllDeadLetters',
    tag: 'system',
    summary: 'Items that any job gave up on',
    role: 'read',
    answer: shapes.answer({ letters: shapes.list(shapes.answer({ key: shapes.text, timeline: shapes.text })) }),
    async call({ engine, principal }) {
      const heads = await withLetters(engine, (scope) => scopesFor(principal, scope))
      return { letters: await lettersOf(engine, heads) }
    },
  },
  {
    method: 'GET',
    path: '/v1/log',
    id: 'readLog',
    tag: 'system',
    summary:
      'Events of the store: recoveries, drills, failed checkpoints, repairs; the newest matching ones, oldest first',
    role: 'read',
    isWhole: true,
    query: {
      timeline: shapes.text,
      kind: shapes.text,
      since: { type: 'integer', description: 'milliseconds since 1970' },
      limit: shapes.limit(1000),
    },
    answer: shapes.answer({ reports: shapes.list(shapes.answer({ kind: shapes.text, what: { type: 'string' } })) }),
    async call({ engine, query }) {
      const [timeline, kind, since] = [query.text('timeline'), query.text('kind'), query.number('since')]
      const reports = await engine.log({
        limit: query.number('limit') ?? 100,
        ...(timeline !== undefined && { timeline: timelineId(timeline) }),
        ...(kind !== undefined && { kind }),
        ...(since !== undefined && { since }),
      })
      return { reports }
    },
  },
  {
    method: 'POST',
    path: '/v1/verify',
    id: 'verify',
    tag: 'system',
    summary: 'Verify all stored data; changes nothing',
    role: 'operate',
    isLong: true,
    body: shapes.object({
      timelines,
      resume: {
        type: 'boolean',
        description: 'save progress, which GET returns, and resume an interrupted verification',
      },
    }),
    answer: shapes.answer({ ok: { type: 'boolean' }, faults: shapes.list(shapes.any) }),
    async call(call) {
      const verified = await named(call)
      const { resume } = call.body as { readonly resume?: boolean }
      // A caller that reaches a part of the store verifies only that part, without resuming.
      return await call.engine.verify({ ...verified, ...(resume && !verified.timelines && { resume }) })
    },
  },
  {
    method: 'GET',
    path: '/v1/verify',
    id: 'verifying',
    tag: 'system',
    summary: 'The progress of a resumable verification, running or interrupted',
    role: 'operate',
    isWhole: true,
    answer: shapes.answer({ unfinished: shapes.any }),
    call: async ({ engine }) => ({ unfinished: await unfinishedVerify(hostOf(engine).kernel) }),
  },
  {
    method: 'POST',
    path: '/v1/drill',
    id: 'drill',
    tag: 'system',
    summary: 'Restore checkpoints to a separate place and compare them',
    role: 'operate',
    isLong: true,
    body: shapes.object({ timelines }),
    answer: shapes.answer({ ok: { type: 'boolean' }, results: shapes.list(shapes.any) }),
    call: async (call) => await call.engine.drill(await named(call)),
  },
  {
    method: 'POST',
    path: '/v1/collect',
    id: 'collect',
    tag: 'system',
    summary: 'What retention would remove and why: a dry run, which changes nothing',
    role: 'operate',
    isWhole: true,
    isLong: true,
    body: shapes.object({ dryRun: { type: 'boolean', enum: [true], default: true } }),
    answer: shapes.answer({ isDryRun: { type: 'boolean' }, timelines: shapes.list(shapes.any), chunks: shapes.any }),
    call: ({ engine }) => engine.collect({ dryRun: true }),
  },
]

/** The named timelines. Default: the whole store, if the caller reaches it. */
async function named({ engine, principal, body }: Call): Promise<{ readonly timelines?: readonly string[] }> {
  const ids = body.timelines as readonly string[] | undefined
  if (ids === undefined) {
    if (principal.scopes === null) return {}
    throw new RepriseError('FORBIDDEN', 'this token is for part of the store: name the timelines', {})
  }
  return { timelines: await Promise.all(ids.map(async (id) => (await reached(engine, principal, id)).timeline)) }
}

async function checkReady(engine: Call['engine']): Promise<void> {
  const { kernel } = hostOf(engine)
  // A file that was moved away can still be read: the store's own facts reveal it.
  await kernel.store.upkeep.facts()
  const own = kernel.worker.registered
  if (own === null) return
  const row = (await kernel.store.workers()).find(({ id }) => id === own)
  if (!row?.isAlive) throw new RepriseError('WORKER_RETIRED', 'this process does not hold its lease', {})
}

function accessOf({ access }: ServerParts): Access {
  if (access) return access
  throw new RepriseError('INVALID_ARGUMENT', 'the host application controls access to this server', {})
}
