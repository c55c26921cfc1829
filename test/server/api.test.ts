import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { guardOf } from '../../src/core/store/commit-guard.ts'
import { newOperation } from '../../src/engine/storage/kernel.ts'
import { open, type Reprise, timeline } from '../../src/index.ts'
import { job } from '../../src/layers/job/index.ts'
import { schedule, workflow } from '../../src/layers/workflow/index.ts'
import { documentOf } from '../../src/server/openapi.ts'
import { routes } from '../../src/server/routes/index.ts'
import { mismatch } from '../../src/server/schema.ts'
import { pause, temporaryFolder } from '../support/fixture.ts'
import { hostOf } from '../support/host.ts'
import { type Ask, at, startServer, type TestServer, tokens } from './support.ts'

const counter = timeline('ann', {
  initial: () => ({ total: 0 }),
  apply: (state, entry: { type: 'added'; by: number }) => ({ total: state.total + entry.by }),
})

const flow = workflow('ann-flow', async (ctx) => {
  let sum = 0
  ctx.onQuery('sum', (factor: number) => sum * factor)
  ctx.onUpdate('add', (by: number) => {
    sum += by
    return sum
  })
  await ctx.step('reserve', async () => 'r-1', { undo: async () => undefined })
  return await ctx.signal('go')
})

const failing = job('ann', {
  source: ['a', 'b', 'bad'],
  key: (item: string) => item,
  retry: { attempts: 1 },
  each: async (item) => {
    if (item === 'bad') throw new Error('no such thing')
  },
})

const folder = temporaryFolder('server')
let rp: Reprise
let here: TestServer

beforeAll(async () => {
  rp = await open(`sqlite:${join(folder, 'store.db')}`, { housekeeping: false })
  const definitions = [counter, flow, failing]
  here = await startServer({ rp, definitions })
  const handle = await rp.open(counter, 'visits')
  for (const by of [1, 2, 3, 4]) await handle.append({ type: 'added', by })
  await handle.checkpoint()
  await handle.close()
  await rp.run(failing).result()
  await rp.run(flow, { id: 'one' })
  const nightly = schedule('nightly', { workflow: flow, cron: '0 3 * * *' })
  rp.work([nightly])
  await here.ask(`${at('bob/notes')}/entries`, { as: 'bob', body: { entries: [{ type: 'noted', data: { n: 1 } }] } })
  while ((await rp.list({ prefix: 'workflow-schedule/' })).length < 1) await pause(10)
  while (((await rp.head('workflow/ann-flow/one'))?.seq ?? 0) < 2) await pause(10)
})
afterAll(async () => {
  await here.close()
})

const visits = at('ann/visits')
const run = at('workflow/ann-flow/one')

describe('the document', () => {
  it('names each route once, with the path of a route of the server and a role that the server holds it to', async () => {
    const { value } = await here.ask('/v1/openapi.json', { as: null })
    expect(value.openapi).toBe('3.1.0')
    expect(value).toEqual(JSON.parse(JSON.stringify(documentOf(routes, value.info.version, ''))))
    const named = Object.entries(value.paths as Record<string, Record<string, unknown>>).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.replace('x-', '').toUpperCase()} ${path}`),
    )
    expect(named.sort()).toEqual(routes.map(({ method, path }) => `${method} ${path}`).sort())
    expect(new Set(routes.map(({ id }) => id)).size).toBe(routes.length)
    for (const { method, path, role } of routes) {
      const filled = path.replaceAll(/\{\w+\}/g, 'nothing')
      const ask: Ask = { method, as: null, ...(method === 'GET' ? {} : { body: {} }) }
      const { status, value: told } = await here.ask(filled, ask)
      // Without a token a route answers, or reports that it needs one: it exists, and it is guarded.
      expect([method, path, status === 401]).toEqual([method, path, role !== null])
      if (role === null) expect(told.detail ?? '').not.toMatch(/no such route/)
    }
  })
})

it('has a name for each object with properties, declares open objects, and has items for arrays', () => {
  const document = documentOf(routes, '1', '')
  const { schemas } = document.components as { schemas: Record<string, unknown> }
  const refs = new Set<string>()
  const faults: string[] = []
  const look = (schema: Record<string, unknown>, where: string) => {
    const types = [schema.type].flat()
    if (typeof schema.$ref === 'string') refs.add(schema.$ref)
    if (types.includes('object') && schema.additionalProperties === undefined) faults.push(`${where}: open or closed?`)
    if (types.includes('array') && !schema.items) faults.push(`${where}: of what?`)
    if (schema.properties && !/^schemas\/\w+$/.test(where)) faults.push(`${where}: no name`)
    for (const [key, part] of Object.entries(schema)) {
      if (typeof part === 'object' && part !== null) look(part as Record<string, unknown>, `${where}/${key}`)
    }
  }
  look(schemas, 'schemas')
  look(document.paths as Record<string, unknown>, 'paths')
  expect(faults).toEqual([])
  const names = Object.keys(schemas)
  expect([...refs].sort()).toEqual(names.map((name) => `#/components/schemas/${name}`).sort())
  expect(names).toEqual(expect.arrayContaining(['Coordinate', 'Entry', 'Head', 'Lease', 'Problem', 'Timeline']))
})

/** The requests of a client, each with a description of the answer; each answer is checked against the schema of its route. */
const calls: readonly (readonly [id: string, path: string, ask: Ask, told: object])[] = [
  ['about', '/v1', {}, { name: 'owner', role: 'write', scopes: null }],
  ['ready', '/readyz', { as: null }, { ok: true }],
  ['listErrors', '/v1/errors', { as: null }, {}],
  ['listTimelines', '/v1/timelines?prefix=ann/', {}, { timelines: [{ timeline: 'ann/visits', seq: 4 }], next: null }],
  ['listRuns', '/v1/runs?kind=workflow&summary=true', {}, { runs: [{ kind: 'workflow', isUnfinished: true }] }],
  ['listRuns', '/v1/runs?unfinished=true', {}, { runs: [{ timeline: 'workflow/ann-flow/one' }] }],
  ['listRuns', '/v1/runs?kind=job&name=ann&attribute=dead=1', {}, { runs: [{ timeline: 'job/ann' }] }],
  ['showTimeline', visits, {}, { kind: 'timeline', seq: 4, checkpoints: 1 }],
  ['showTimeline', run, {}, { kind: 'workflow', summary: { steps: 1 } }],
  [
    'recoveryCard',
    `${visits}/card`,
    {},
    { missing: null, checkpoints: 1, settings: [{ name: 'retain' }, { name: 'checkpoint' }] },
  ],
  ['stateAt', `${visits}/state`, {}, { state: { total: 10 }, coordinate: { seq: 4 } }],
  ['stateAt', `${visits}/state?seq=2`, {}, { state: { total: 3 }, coordinate: { seq: 2 } }],
  ['diffStates', `${visits}/diff?from=1`, {}, { changes: [{ path: 'total', before: 1, after: 10 }] }],
  [
    'readHistory',
    `${visits}/history?limit=2`,
    {},
    { entries: [{ seq: 1 }, { seq: 2 }], next: expect.stringMatching(/^2:[0-9a-f]{16}$/) },
  ],
  ['readHistory', `${visits}/history?after=2`, {}, { entries: [{ seq: 3 }, { seq: 4 }], next: null }],
  [
    'readHistory',
    `${visits}/history?before=5&limit=3`,
    {},
    { entries: [{ seq: 4 }, { seq: 3 }, { seq: 2 }], next: expect.stringMatching(/^2:/) },
  ],
  ['readHistory', `${visits}/history?before=2&limit=3`, {}, { entries: [{ seq: 1 }], next: null }],
  ['readHistory', `${run}/history?journal=true&limit=1`, {}, { entries: [{ seq: 1, told: { title: 'started' } }] }],
  ['listDefinitions', '/v1/definitions', {}, { definitions: [{ name: 'ann' }, { name: 'ann-flow' }] }],
  ['search', '/v1/search?text=ANN+visits', {}, { timelines: [{ timeline: 'ann/visits', kind: 'timeline' }], total: 1 }],
  [
    'search',
    '/v1/search?kind=job&attribute=dead=1',
    {},
    { timelines: [{ statusLine: { text: '2 done, 1 dead letter' } }] },
  ],
  ['search', '/v1/search?runs=true&status=completed', {}, { total: 1, statuses: { completed: 1 } }],
  ['listCheckpoints', `${visits}/checkpoints`, {}, { checkpoints: [{ seq: 4 }] }],
  ['listEffects', `${visits}/effects?open=true`, {}, { effects: [] }],
  ['listDeadLetters', `${at('job/ann')}/dead-letters`, {}, { letters: [{ key: 'bad' }] }],
  ['listAllDeadLetters', '/v1/dead-letters', {}, { letters: [{ key: 'bad', timeline: 'job/ann' }] }],
  ['listSchedules', '/v1/schedules', {}, { schedules: [{ schedule: 'nightly' }] }],
  ['listQueues', '/v1/queues', {}, {}],
  ['listWorkers', '/v1/workers', {}, { workers: [{ isAlive: true }] }],
  ['listConsumers', '/v1/consumers', {}, { consumers: [] }],
  ['listCaches', '/v1/caches', {}, { caches: [], memos: [] }],
  ['listTiers', '/v1/tiers', {}, { isDryRun: true, history: { tier: null, segments: 0 } }],
  ['listSettings', '/v1/settings', {}, {}],
  ['readLog', '/v1/log?limit=5', {}, {}],
  ['verify', '/v1/verify', { body: {} }, { ok: true, faults: [] }],
  ['verify', '/v1/verify', { body: { resume: true } }, { ok: true, earlier: null }],
  ['verifying', '/v1/verify', {}, { unfinished: null }],
  ['drill', '/v1/drill', { body: { timelines: ['ann/visits'] } }, { ok: true }],
  ['collect', '/v1/collect', { body: { dryRun: true } }, { isDryRun: true }],
  ['readFeed', '/v1/feed?prefix=ann/visits&limit=2', {}, { isEnd: false }],
  ['query', `${run}/query`, { body: { name: 'status' } }, {}],
  ['query', `${run}/query`, { body: { name: 'sum', arguments: [2] }, as: 'reader' }, { answer: 0 }],
  ['update', `${run}/update`, { body: { name: 'add', argument: 5 }, key: 'u1' }, { result: 5 }],
  ['update', `${run}/update`, { body: { name: 'add', argument: 5 }, key: 'u1' }, { result: 5 }],
  ['query', `${run}/query`, { body: { name: 'sum', arguments: [2] } }, { answer: 10 }],
  ['planRollback', `${visits}/rollback/plan`, { body: { seq: 3 }, as: 'reader' }, { from: 4, to: 3 }],
  ['rollback', `${visits}/rollback`, { body: { from: 4, to: 3 }, key: 'r1' }, { from: 4, archive: 'ann/visits~1' }],
  ['rollback', `${visits}/rollback`, { body: { from: 4, to: 3 }, key: 'r1' }, { from: 4, archive: 'ann/visits~1' }],
  ['fork', `${visits}/fork`, { body: { to: 'copy' }, key: 'f1' }, { timeline: 'ann/copy', parent: 'ann/visits' }],
  ['fork', `${visits}/fork`, { body: { to: 'copy' }, key: 'f1' }, { timeline: 'ann/copy' }],
  [
    'fork',
    `${run}/fork`,
    { body: { to: 'edited', set: { reserve: 'r-2' }, by: 'bob' }, key: 'f2' },
    { timeline: 'workflow/ann-flow/edited', parent: 'workflow/ann-flow/one', seq: 1 },
  ],
  ['showTimeline', at('workflow/ann-flow/edited'), {}, { edited: { names: ['reserve'], by: 'bob' }, base: { seq: 1 } }],
  [
    'readHistory',
    `${at('workflow/ann-flow/edited')}/history?after=2&limit=1&journal=true`,
    {},
    { entries: [{ type: 'done', told: { note: 'edited by bob, in place of entry 2 of its parent' } }] },
  ],
  ['listRelatives', `${visits}/relatives`, {}, {}],
  ['showFlow', `${visits}/flow`, {}, { flow: null }],
  ['storage', '/v1/storage', {}, { store: { kind: 'sqlite' }, isPartial: false }],
  ['doctor', '/v1/doctor', {}, { ok: true }],
  ['savepoint', `${visits}/savepoints`, { body: { label: 'mine' }, key: 's1' }, { label: 'mine' }],
  ['redrive', `${at('job/ann')}/redrive`, { body: { keys: ['bad'] }, key: 'd1' }, { facts: { redriven: ['bad'] } }],
  ['redrive', `${at('job/ann')}/redrive`, { body: { keys: ['bad'] }, key: 'd1' }, { facts: { redriven: ['bad'] } }],
  ['signal', `${run}/signal`, { body: { name: 'other', value: 1 }, as: 'operator' }, { facts: { signal: 'other' } }],
  [
    'cancel',
    `${run}/cancel`,
    { body: { reason: 'enough' }, key: 'c1' },
    { facts: { asked: ['workflow/ann-flow/one'] } },
  ],
  ['append', `${at('x/y')}/entries`, { body: { entries: [{ type: 'a' }] }, key: 'a1' }, { seq: 1, isDuplicate: false }],
  ['append', `${at('x/y')}/entries`, { body: { entries: [{ type: 'a' }] }, key: 'a1' }, { seq: 1, isDuplicate: true }],
  ['takeLease', `${at('x/y')}/lease`, { body: { holder: 'me' }, key: 'l1' }, { epoch: expect.any(Number), seq: 1 }],
  ['takeLease', `${at('x/y')}/lease`, { body: { holder: 'me' }, key: 'l1' }, { epoch: expect.any(Number), seq: 1 }],
  ['renewLease', `${at('x/y')}/lease/renew`, { body: { epoch: 'EPOCH' } }, { holder: 'me' }],
  [
    'putCheckpoint',
    `${at('x/y')}/checkpoint?seq=1&epoch=EPOCH`,
    { method: 'PUT', body: { a: 1 } },
    { coordinate: { seq: 1 } },
  ],
  ['getCheckpoint', `${at('x/y')}/checkpoint`, {}, { value: { a: 1 } }],
  ['releaseLease', `${at('x/y')}/lease?epoch=EPOCH`, { method: 'DELETE' }, { released: true }],
]

/** The fencing token of the lease that was taken last: it stands for EPOCH. */
let epoch = 0

const withEpoch = (ask: Ask): Ask =>
  isDeepStrictEqual(ask.body, { epoch: 'EPOCH' }) ? { ...ask, body: { epoch } } : ask

describe('each route', () => {
  it.each(calls.map((call, i) => [i, ...call] as const))('%d: %s %s', async (_, id, path, ask, told) => {
    const { status, value } = await here.ask(path.replace('EPOCH', `${epoch}`), withEpoch(ask))
    if (id === 'takeLease') epoch = value.epoch
    const route = routes.find((each) => each.id === id)!
    expect([status, value]).toEqual([route.status ?? 200, expect.objectContaining({})])
    expect(mismatch(route.answer, value, 'the answer')).toBeNull()
    expect(value).toMatchObject(told)
  })

  it('that is missing above is named here', () => {
    const asked = new Set(calls.map(([id]) => id))
    const others = [
      'health',
      'metrics',
      'document',
      'explainError',
      'makeLink',
      'beginSession',
      'followFeed',
      'releaseSavepoint',
    ]
    const more = ['stop', 'terminate', 'retry', 'settle', 'decide', 'discard', 'settleEffect', 'markCheckpoint']
    const elsewhere = ['startRun', 'awaitResult', 'listRemote', 'startRemoteJob', 'claimRemote', 'heartbeatRemote']
    const files = ['settleRemote', 'exportTimeline', 'exportProgress', 'importTimeline', 'importProgress']
    const tools = ['mcp', 'mcpStream']
    // In test/workflow/rerun.test.ts, by the verbs that they call.
    const reruns = ['listSteps', 'rerun']
    // In test/server/caches.test.ts, configs.test.ts and kubernetes.test.ts, and in test/upload.
    const groups = ['caches', 'configs', 'kubernetes', 'uploads']
    const caches = routes.filter(({ tag }) => groups.includes(tag)).map(({ id }) => id)
    expect(
      routes
        .map(({ id }) => id)
        .filter((id) => !asked.has(id))
        .sort(),
    ).toEqual([...others, ...more, ...elsewhere, ...files, ...tools, ...reruns, ...caches].sort())
  })

  it('releases a savepoint, marks a checkpoint bad and takes that back', async () => {
    const { value } = await here.ask(`${visits}/savepoints`, { body: {}, key: 's2' })
    const again = await here.ask(`${visits}/savepoints`, { body: {}, key: 's2' })
    expect(again.headers.get('idempotency-replayed')).toBe('true')
    expect(again.value.id).toBe(value.id)
    const marked = await here.ask(`${visits}/checkpoints/${value.id}/mark`, { body: { bad: 'I say so' } })
    expect(marked.value).toMatchObject({ bad: 'I say so', by: 'owner' })
    const { value: catalog } = await here.ask(`${visits}/checkpoints`)
    expect(catalog.checkpoints.find(({ id }: { id: string }) => id === value.id).invalid).toContain('I say so')
    expect((await here.ask(`${visits}/checkpoints/${value.id}/mark`, { body: {} })).value.bad).toBeNull()
    expect((await here.ask(`${visits}/savepoints/${value.id}`, { method: 'DELETE' })).value.released).toBe(value.id)
    expect((await here.ask(`${visits}/savepoints/${value.id}`, { method: 'DELETE' })).status).toBe(404)
  })

  it('refuses a verb that a model does not have, with the word for the right one', async () => {
    for (const [path, body] of [
      [`${at('job/ann')}/signal`, { name: 'x' }],
      [`${at('job/ann')}/terminate`, {}],
      [`${run}/redrive`, {}],
      [`${run}/decide`, { verdict: 'approve' }],
      [`${visits}/settle`, { step: 'x', outcome: 'done' }],
      [`${visits}/terminate`, {}],
      [`${run}/discard`, { keys: ['x'] }],
    ] as const) {
      const { value } = await here.ask(path, { body })
      expect([path, value.code]).toEqual([path, 'INVALID_ARGUMENT'])
      expect(value.detail).toMatch(/which has no/)
    }
    const none = await here.ask(`${visits}/effects/nothing/settle`, { body: { outcome: 'done' } })
    expect(none.value.code).toBe('NOT_FOUND')
  })

  it('forks with edits once per key, also where the answer was lost, and refuses what cannot be edited with what to do', async () => {
    const body = { to: 'lost', set: { reserve: 'r-3' } }
    const kept = new Set((await rp.list({ prefix: 'reprise/requests/' })).map(({ timeline }) => timeline))
    const first = await here.ask(`${run}/fork`, { body, key: 'f3' })
    expect([first.status, first.value.seq]).toEqual([200, 1])
    // As if the server had died between the fork and the answer that it keeps.
    const { kernel } = hostOf(rp)
    for await (const head of rp.each({ prefix: 'reprise/requests/' })) {
      if (kept.has(head.timeline)) continue
      const guard = guardOf(head)
      await kernel.committer.submit({ operation: newOperation(kernel.random), guard, forget: true })
    }
    const again = await here.ask(`${run}/fork`, { body, key: 'f3' })
    expect([again.status, again.value]).toEqual([200, first.value])
    const { value: told } = await here.ask(`${at('workflow/ann-flow/lost')}/history?after=2&limit=1`)
    expect(told.entries).toMatchObject([{ type: 'done', data: { result: 'r-3', by: 'owner', replaces: 2 } }])
    for (const [path, edits, code, words] of [
      [run, { set: { nothing: 1 } }, 'NOT_FOUND', 'it has reserve'],
      [run, { set: { reserve: 1, other: 2 } }, 'INVALID_ARGUMENT', 'fork the fork'],
      [run, { set: 'reserve' }, 'INVALID_ARGUMENT', 'set'],
      [visits, { set: { total: 5 } }, 'INVALID_ARGUMENT', 'fork it, then act on the fork'],
    ] as const) {
      const { value } = await here.ask(`${path}/fork`, { body: { to: 'refused', ...edits } })
      expect([value.code, value.detail]).toEqual([code, expect.stringContaining(words)])
    }
    expect(await rp.head('workflow/ann-flow/refused')).toBeNull()
  })

  it('refuses a rollback whose plan is old, and a key that was used for something else', async () => {
    const { value } = await here.ask(`${visits}/rollback`, { body: { from: 1, to: 0 } })
    expect([value.status, value.code]).toEqual([409, 'CONFLICT'])
    const reused = await here.ask(`${visits}/fork`, { body: { to: 'other' }, key: 'f1' })
    expect([reused.status, reused.value.code]).toEqual([422, 'KEY_REUSED'])
    expect(await rp.head('ann/other')).toBeNull()
    // The same key of another caller is another key.
    const { status } = await here.ask(`${visits}/fork`, { body: { to: 'other' }, key: 'f1', as: 'ann' })
    expect(status).toBe(200)
  })

  it("lists all timelines page by page, without the store's own notes", async () => {
    const seen: string[] = []
    for (let after = ''; ; ) {
      const { value } = await here.ask(`/v1/timelines?limit=2${after && `&after=${encodeURIComponent(after)}`}`)
      seen.push(...value.timelines.map((head: { timeline: string }) => head.timeline))
      if (value.next === null) break
      after = value.next
    }
    const all = (await rp.list()).map((head) => head.timeline as string)
    expect(all.some((id) => id.startsWith('reprise/'))).toBe(true)
    expect(seen).toEqual(all.filter((id) => !id.startsWith('reprise/')))
  })
})

describe('two tenants', () => {
  const foreign = ['bob/notes', 'bob/none', 'job/bob', 'workflow/bob-flow/1', 'ann']

  it("learn nothing about the other's data, not even whether it exists", async () => {
    for (const { method, path, body, query = {}, id } of routes) {
      if (!path.includes('{timeline}')) continue
      const answers = []
      for (const timeline of foreign) {
        const filled = path.replace('{timeline}', encodeURIComponent(timeline)).replaceAll(/\{\w+\}/g, 'x')
        const required = Object.entries(query).filter(([, schema]) => schema.isRequired)
        const search = required.map(([name]) => `${name}=1`).join('&')
        const ask: Ask = {
          method,
          as: 'ann',
          ...(body && { body: fill(body) }),
          ...(id === 'putCheckpoint' && { body: {} }),
        }
        const { status, value } = await here.ask(`${filled}${search && `?${search}`}`, ask)
        answers.push([status, value.code, value.data, value.detail.replace(timeline, 'ID')])
      }
      for (const answer of answers)
        expect([id, ...answer]).toEqual([id, 404, 'NOT_FOUND', {}, 'there is no timeline ID'])
    }
  })

  it('see their own part of every list, and nothing about the whole store', async () => {
    const idsOf = async (as: string) => {
      const { value } = await here.ask('/v1/timelines', { as })
      return value.timelines.map((head: { timeline: string }) => head.timeline)
    }
    expect(await idsOf('bob')).toEqual(['bob/notes'])
    expect((await idsOf('ann')).every((id: string) => !id.startsWith('bob'))).toBe(true)
    expect((await here.ask('/v1/timelines?prefix=ann/', { as: 'bob' })).value).toEqual({ timelines: [], next: null })
    expect((await here.ask('/v1/runs', { as: 'bob' })).value).toEqual({ runs: [], next: null })
    expect((await here.ask('/v1/dead-letters', { as: 'bob' })).value).toEqual({ letters: [] })
    expect((await here.ask('/v1/schedules', { as: 'bob' })).value).toEqual({ schedules: [] })
    const { value } = await here.ask('/v1/feed', { as: 'bob' })
    const timelines = value.items.flatMap((item: { entries: { timeline: string }[] }) => item.entries)
    expect(new Set(timelines.map((entry: { timeline: string }) => entry.timeline))).toEqual(new Set(['bob/notes']))
    for (const { path, method, body, isWhole } of routes.filter((route) => route.isWhole)) {
      const told = await here.ask(path, { as: 'bob', method, ...(body && { body: {} }) })
      expect([path, isWhole, told.value.code]).toEqual([path, true, 'FORBIDDEN'])
    }
    for (const path of ['/v1/verify', '/v1/drill']) {
      expect((await here.ask(path, { as: 'bob', body: {} })).value.code).toBe('FORBIDDEN')
      expect((await here.ask(path, { as: 'bob', body: { timelines: ['ann/visits'] } })).value.code).toBe('NOT_FOUND')
      expect((await here.ask(path, { as: 'bob', body: { timelines: ['bob/notes'] } })).status).toBe(200)
    }
  })

  it('do not see whose fork one of theirs is, nor who holds its history', async () => {
    await here.ask(`${at('bob/notes')}/fork`, { body: { to: 'ann/of-bob' } })
    const asAnn = await here.ask(at('ann/of-bob'), { as: 'ann' })
    expect([asAnn.status, asAnn.value.base, asAnn.value.lineage]).toEqual([200, null, []])
    expect((await here.ask(at('ann/of-bob'))).value.base).toEqual({ timeline: 'bob/notes', seq: 1 })
    for (const path of [
      at('ann/of-bob'),
      `${at('ann/of-bob')}/card`,
      `${at('ann/of-bob')}/history`,
      '/v1/timelines?parent=bob/notes',
      '/v1/timelines',
    ]) {
      expect(JSON.stringify((await here.ask(path, { as: 'ann' })).value)).not.toContain('bob/notes')
    }
    expect(JSON.stringify((await here.ask(`${at('bob/notes')}/card`, { as: 'bob' })).value)).not.toContain('ann/')
    await rp.delete('ann/of-bob')
  })

  it('fork only into their own scope', async () => {
    const out = await here.ask(`${visits}/fork`, { as: 'ann', body: { to: 'bob/stolen' } })
    expect(out.value.code).toBe('NOT_FOUND')
    expect(await rp.head('bob/stolen')).toBeNull()
  })

  it('have a token each', () => {
    expect(tokens.filter(({ scopes }) => scopes).map(({ name }) => name)).toEqual(['ann', 'bob'])
  })
})

describe('the figures', () => {
  it('are lines that Prometheus reads', async () => {
    const { value, headers } = await here.ask('/metrics')
    expect(headers.get('content-type')).toMatch(/^text\/plain; version=0.0.4/)
    const lines = (value as string).trimEnd().split('\n')
    const sample = /^[a-z_]+(?:\{(?:[a-z_]+="(?:[^"\\]|\\.)*",?)+\})? -?\d+(?:\.\d+)?(?:e[+-]?\d+)?$/
    for (const line of lines) expect(line).toMatch(/^# (HELP|TYPE) /.test(line) ? /./ : sample)
    expect(value).toMatch(/^reprise_workers\{state="alive"\} 1$/m)
    expect(value).toMatch(/^reprise_http_requests_total\{route="stateAt",status="200"\} [1-9]/m)
    const counts = [...(value as string).matchAll(/^reprise_commit_seconds_(?:bucket\{le="\+Inf"\}|count) (\d+)$/gm)]
    expect(counts.length).toBe(2)
    expect(counts[0]![1]).toBe(counts[1]![1])
  })
})

/** A body that passes the schema. */
function fill(schema: NonNullable<(typeof routes)[number]['body']>): Record<string, unknown> {
  const one = (each: typeof schema): unknown => {
    if (each.enum) return each.enum[0]
    if (each.type === 'array') return [each.items ? one(each.items) : 1]
    if (each.type === 'object') return fill(each)
    if (each.type === 'integer') return Math.max(1, each.minimum ?? 1)
    return each.type === 'boolean' ? false : 'x'
  }
  const needed = schema.required ?? []
  return Object.fromEntries(needed.map((name) => [name, one(schema.properties![name]!)]))
}
