// Resources over HTTP by Kubernetes' conventions: the answers that clients depend on, compared with those of a real API server
// (kube-apiserver 1.36), and the permissions of tokens.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { resource } from '../../src/layers/resource/index.ts'
import { type Ask, requestOf, secret, startServer, type TestServer, tokens } from './support.ts'

const sites = resource<{ replicas: number }>('sites')
const notes = resource('notes', {
  api: { namespaced: true, group: 'notes.example.com', version: 'v1beta1', shortNames: ['nt'] },
})
const strict = resource<{ n: number }>('policies', {
  schema: {
    '~standard': {
      version: 1,
      vendor: 'test',
      validate: (value) =>
        typeof (value as { n?: unknown }).n === 'number'
          ? { value: value as { n: number } }
          : { issues: [{ message: 'n must be a number' }] },
    },
  },
})

const team = { name: 'team', token: secret('team'), role: 'write', scopes: ['resource/notes/team-a'] } as const
let here: TestServer
beforeAll(async () => {
  here = await startServer({ definitions: [sites, notes, strict], tokens: [...tokens, team] })
})
afterAll(() => here.close())

const base = '/apis/resources.reprise/v1/sites'
const site = (name: string, replicas = 1, metadata: object = {}) => ({
  apiVersion: 'resources.reprise/v1',
  kind: 'Site',
  metadata: { name, ...metadata },
  spec: { replicas },
})
const send = (method: string, path: string, body?: unknown, more: Ask = {}) =>
  here.ask(path, { method, ...(body !== undefined && { body }), ...more })
const patchAs = (type: string) => ({ headers: { 'content-type': type } })
const statusOf = ({ status, value }: { status: number; value: { kind: string; code: number; reason: string } }) => [
  ...[status, value.kind, value.code, value.reason],
]

/** The lines of a watch until it ends, or as many as are wanted. */
async function lines(path: string, count = Number.POSITIVE_INFINITY, as = 'owner') {
  const response = await here.server(requestOf(path, { as }))
  expect([response.status, response.headers.get('content-type')]).toEqual([200, 'application/json'])
  expect(response.headers.get('cache-control')).toBe('no-cache, private')
  const found: { type: string; object: Record<string, never> & { metadata: Record<string, string> } }[] = []
  let text = ''
  for await (const bytes of response.body as unknown as AsyncIterable<Uint8Array>) {
    text += Buffer.from(bytes).toString()
    const whole = text.split('\n')
    text = whole.pop()!
    for (const line of whole) found.push(JSON.parse(line))
    if (found.length >= count) break
  }
  return found
}

describe('discovery', () => {
  it('names groups, versions and kinds as clients request them', async () => {
    const { value: groups } = await here.ask('/apis')
    expect(groups).toMatchObject({ kind: 'APIGroupList', apiVersion: 'v1' })
    expect(groups.groups.map(({ name }: { name: string }) => name)).toEqual(['resources.reprise', 'notes.example.com'])
    expect((await here.ask('/apis/notes.example.com')).value).toMatchObject({
      kind: 'APIGroup',
      preferredVersion: { groupVersion: 'notes.example.com/v1beta1', version: 'v1beta1' },
    })
    const { value: kinds } = await here.ask('/apis/resources.reprise/v1?timeout=32s')
    expect(kinds).toMatchObject({ kind: 'APIResourceList', groupVersion: 'resources.reprise/v1' })
    expect(kinds.resources.map(({ name, kind }: Record<string, string>) => `${name} ${kind}`)).toEqual([
      ...['sites Site', 'sites/status Site', 'policies Policy', 'policies/status Policy'],
    ])
    const { value: noted } = await here.ask('/apis/notes.example.com/v1beta1')
    expect(noted.resources[0]).toMatchObject({ name: 'notes', kind: 'Note', namespaced: true, shortNames: ['nt'] })
    expect((await here.ask('/api')).value).toMatchObject({ kind: 'APIVersions', versions: [] })
    expect(statusOf(await here.ask('/apis/nobody.example.com/v1'))).toEqual([404, 'Status', 404, 'NotFound'])
    expect((await here.ask('/openapi/v2')).value).toMatchObject({ swagger: '2.0' })
  })

  it('shows a token the kinds of which it reaches something', async () => {
    const { value } = await here.ask('/apis', { as: 'team' })
    expect(value.groups.map(({ name }: { name: string }) => name)).toEqual(['notes.example.com'])
    expect(statusOf(await here.ask('/apis/resources.reprise/v1', { as: 'team' }))).toEqual([
      404,
      'Status',
      404,
      'NotFound',
    ])
  })
})

describe('objects', () => {
  it('are created, read, replaced, patched and deleted', async () => {
    const made = await send('POST', base, site('one', 2, { labels: { app: 'web' }, annotations: { a: 'b' } }))
    expect(made.status).toBe(201)
    const { metadata } = made.value
    expect(made.value).toMatchObject({
      ...site('one', 2),
      metadata: { name: 'one', generation: 1, labels: { app: 'web' } },
    })
    expect(metadata.resourceVersion).toMatch(/^\d+$/)
    expect(metadata.creationTimestamp).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/)
    expect(statusOf(await send('POST', base, site('one')))).toEqual([409, 'Status', 409, 'AlreadyExists'])
    expect((await here.ask(`${base}/one`)).value).toEqual(made.value)

    const put = await send('PUT', `${base}/one`, { ...made.value, spec: { replicas: 3 } })
    expect([put.status, put.value.metadata.generation, put.value.spec]).toEqual([200, 2, { replicas: 3 }])
    const old = await send('PUT', `${base}/one`, { ...made.value, spec: { replicas: 9 } })
    expect(old.value).toMatchObject({
      kind: 'Status',
      status: 'Failure',
      reason: 'Conflict',
      code: 409,
      message:
        'Operation cannot be fulfilled on sites.resources.reprise "one": the object has been modified; please apply your changes to the latest version and try again',
      details: { name: 'one', group: 'resources.reprise', kind: 'sites' },
    })
    const { resourceVersion: _, ...nameless } = metadata
    expect(statusOf(await send('PUT', `${base}/one`, { ...made.value, metadata: nameless }))).toEqual([
      ...[422, 'Status', 422, 'Invalid'],
    ])

    const merged = await send(
      'PATCH',
      `${base}/one`,
      { metadata: { labels: { app: null, x: 'y' } }, spec: { replicas: 4 } },
      patchAs('application/merge-patch+json'),
    )
    expect(merged.value).toMatchObject({ metadata: { labels: { x: 'y' }, generation: 3 }, spec: { replicas: 4 } })
    const operations = [{ op: 'replace', path: '/spec/replicas', value: 5 }]
    const patched = await send('PATCH', `${base}/one`, operations, patchAs('application/json-patch+json'))
    expect(patched.value.spec).toEqual({ replicas: 5 })
    const failing = [{ op: 'test', path: '/spec/replicas', value: 1 }]
    expect(statusOf(await send('PATCH', `${base}/one`, failing, patchAs('application/json-patch+json')))).toEqual([
      ...[422, 'Status', 422, 'Invalid'],
    ])
    const stale = { metadata: { resourceVersion: metadata.resourceVersion }, spec: { replicas: 1 } }
    expect(statusOf(await send('PATCH', `${base}/one`, stale, patchAs('application/merge-patch+json')))).toEqual([
      ...[409, 'Status', 409, 'Conflict'],
    ])
    const strategic = await send('PATCH', `${base}/one`, {}, patchAs('application/strategic-merge-patch+json'))
    expect(statusOf(strategic)).toEqual([415, 'Status', 415, 'UnsupportedMediaType'])
    expect(strategic.value.message).toContain('application/merge-patch+json')

    const another = { preconditions: { uid: 'another' } }
    expect(statusOf(await send('DELETE', `${base}/one`, another))).toEqual([409, 'Status', 409, 'Conflict'])
    const gone = await send('DELETE', `${base}/one`, {
      preconditions: { uid: metadata.uid },
      propagationPolicy: 'Background',
    })
    expect(gone.value).toMatchObject({ kind: 'Status', status: 'Success', details: { name: 'one', uid: metadata.uid } })
    expect((await here.ask(`${base}/one`)).value).toMatchObject({
      ...{ kind: 'Status', code: 404, reason: 'NotFound', message: 'sites.resources.reprise "one" not found' },
    })
  })

  it('that are held by a finalizer wait for it', async () => {
    const made = await send('POST', base, site('held', 1, { finalizers: ['a.example.com/b'] }))
    const asked = await send('DELETE', `${base}/held`)
    expect([asked.status, asked.value.kind, asked.value.metadata.generation]).toEqual([200, 'Site', 2])
    expect(asked.value.metadata.deletionTimestamp).toMatch(/Z$/)
    expect((await send('DELETE', `${base}/held`)).status).toBe(200)
    expect((await here.ask(`${base}/held`)).value.metadata.uid).toBe(made.value.metadata.uid)
    const off = await send(
      'PATCH',
      `${base}/held`,
      { metadata: { finalizers: null } },
      patchAs('application/merge-patch+json'),
    )
    expect(off.status).toBe(200)
    expect((await here.ask(`${base}/held`)).status).toBe(404)
  })

  it('keep the status apart from the spec, with its generation', async () => {
    const made = await send('POST', base, { ...site('stated'), status: { ready: 9 } })
    expect(made.value.status).toBeUndefined()
    const condition = {
      type: 'Ready',
      status: 'True',
      reason: 'Fine',
      message: '',
      lastTransitionTime: '2026-01-01T00:00:00Z',
    }
    const status = { ready: 1, observedGeneration: 1, conditions: [condition] }
    const said = await send('PUT', `${base}/stated/status`, { ...made.value, spec: { replicas: 50 }, status })
    expect(said.value).toMatchObject({ spec: { replicas: 1 }, metadata: { generation: 1 }, status })
    const put = await send('PUT', `${base}/stated`, { ...said.value, spec: { replicas: 2 }, status: { ready: 7 } })
    expect(put.value).toMatchObject({ metadata: { generation: 2 }, status: { ready: 1, observedGeneration: 1 } })
    // Written for the previous object: refused, whatever its content.
    expect(statusOf(await send('PUT', `${base}/stated/status`, said.value))).toEqual([409, 'Status', 409, 'Conflict'])
    const fresh = { ...put.value, status: { ready: 2, observedGeneration: 2, conditions: [] } }
    expect((await send('PUT', `${base}/stated/status`, fresh)).value.status).toEqual({
      ready: 2,
      observedGeneration: 2,
    })
    // A status of an older generation than the last report.
    const older = { status: { ready: 1, observedGeneration: 1 } }
    const refused = await send('PATCH', `${base}/stated/status`, older, patchAs('application/merge-patch+json'))
    expect(statusOf(refused)).toEqual([409, 'Status', 409, 'Conflict'])
    const patched = await send(
      'PATCH',
      `${base}/stated/status`,
      { status: { ready: 3 } },
      patchAs('application/merge-patch+json'),
    )
    expect(patched.value.status).toEqual({ ready: 3, observedGeneration: 2 })
    expect((await here.ask(`${base}/stated/status`)).value).toEqual(patched.value)
    // A status without a generation does not count as newer.
    const silent = await send('PUT', `${base}/stated`, { ...patched.value, spec: { replicas: 3 } })
    const { observedGeneration: __, ...plain } = silent.value.status
    const written = await send('PUT', `${base}/stated/status`, { ...silent.value, status: plain })
    expect(written.value).toMatchObject({ metadata: { generation: 3 }, status: { observedGeneration: 2 } })
  })

  it('are named by the server where only the beginning is given, and keep their owners', async () => {
    const owner = (await send('POST', base, site('owner'))).value
    const ownerReferences = [
      {
        apiVersion: 'resources.reprise/v1',
        kind: 'Site',
        name: 'owner',
        uid: owner.metadata.uid,
        controller: true,
        blockOwnerDeletion: true,
      },
      { apiVersion: 'apps/v1', kind: 'Deployment', name: 'x', uid: 'u-1' },
    ]
    const metadata = { generateName: 'owned-', ownerReferences }
    const { value } = await send('POST', base, { metadata, spec: { replicas: 0 } })
    expect(value.metadata.name).toMatch(/^owned-[a-z0-9]{5}$/)
    expect(value.metadata.ownerReferences).toEqual(ownerReferences)
    const handle = await here.rp.open(sites)
    expect((await handle.get(value.metadata.name))!.owners[0]).toEqual({
      ...{ kind: 'sites', name: 'owner', uid: owner.metadata.uid, controller: true },
    })
    await handle.close()
  })

  it('that are invalid are refused, and nothing is done', async () => {
    const codes: [number, string, unknown][] = [
      [400, 'unknown field', { ...site('bad'), data: {} }],
      [400, 'API version', { ...site('bad'), apiVersion: 'other/v1' }],
      [400, 'kind', { ...site('bad'), kind: 'Other' }],
      [400, 'namespace', site('bad', 1, { namespace: 'x' })],
      [400, 'resourceVersion', site('bad', 1, { resourceVersion: '5' })],
      [422, 'labels', site('bad', 1, { labels: { a: 1 } })],
      [422, 'generateName', { metadata: {} }],
    ]
    for (const [code, words, body] of codes) {
      const told = await send('POST', base, body)
      expect([words, told.status]).toEqual([words, code])
      expect(told.value.message).toContain(words)
    }
    expect(
      statusOf(await send('POST', '/apis/resources.reprise/v1/policies', { metadata: { name: 'p' }, spec: {} })),
    ).toEqual([...[422, 'Status', 422, 'Invalid']])
    expect(statusOf(await send('POST', `${base}?dryRun=All`, site('bad')))).toEqual([400, 'Status', 400, 'BadRequest'])
    expect((await here.ask(`${base}/bad`)).status).toBe(404)
    await send('POST', base, site('kept'))
    const foreground = await send('DELETE', `${base}/kept?propagationPolicy=Foreground`)
    expect(statusOf(foreground)).toEqual([400, 'Status', 400, 'BadRequest'])
    expect(statusOf(await send('PUT', `${base}/kept`, site('other')))).toEqual([400, 'Status', 400, 'BadRequest'])
    expect((await here.ask(`${base}/kept`)).status).toBe(200)
  })

  it('are applied by parties that own their fields', async () => {
    const applied = patchAs('application/apply-patch+yaml')
    const at = (by: string, more = '') => `${base}/applied?fieldManager=${by}${more}`
    const first = await send('PATCH', at('a'), site('applied', 1, { labels: { a: '1' } }), applied)
    expect([first.status, first.value.spec, first.value.metadata.labels]).toEqual([201, { replicas: 1 }, { a: '1' }])
    const other = { ...site('applied', 2), metadata: { name: 'applied' } }
    const refused = await send('PATCH', at('b'), other, applied)
    expect([...statusOf(refused), /\ba\b/.test(refused.value.message)]).toEqual([409, 'Status', 409, 'Conflict', true])
    const forced = await send('PATCH', at('b', '&force=true'), other, applied)
    expect([forced.status, forced.value.spec, forced.value.metadata.labels]).toEqual([200, { replicas: 2 }, { a: '1' }])
    const nobody = await send('PATCH', `${base}/applied`, other, applied)
    expect(statusOf(nobody)).toEqual([400, 'Status', 400, 'BadRequest'])
    expect(statusOf(await send('PATCH', `${base}/applied/status`, other, applied))).toEqual([
      ...[415, 'Status', 415, 'UnsupportedMediaType'],
    ])
  })

  it('are deleted together by a selector', async () => {
    for (const name of ['t1', 't2', 't3'])
      await send('POST', base, site(name, 1, { labels: { batch: name === 't3' ? 'b' : 'a' } }))
    const { value } = await send('DELETE', `${base}?labelSelector=batch%3Da`)
    expect(value.items.map(({ metadata }: { metadata: { name: string } }) => metadata.name)).toEqual(['t1', 't2'])
    const left = await here.ask(`${base}?labelSelector=batch`)
    expect(left.value.items).toHaveLength(1)
  })
})

describe('lists', () => {
  const policies = '/apis/resources.reprise/v1/policies'
  beforeAll(async () => {
    for (const name of ['a', 'b', 'c', 'd', 'e']) await send('POST', policies, { metadata: { name }, spec: { n: 1 } })
  })

  it('are returned in pages of one revision, with the number of the remaining ones', async () => {
    const { value: first } = await here.ask(`${policies}?limit=2`)
    expect(first).toMatchObject({ kind: 'PolicyList', metadata: { remainingItemCount: 3 } })
    await send('POST', policies, { metadata: { name: 'aa' }, spec: { n: 1 } })
    const { value: second } = await here.ask(`${policies}?limit=3&continue=${first.metadata.continue}`)
    expect(second.metadata).toEqual({ resourceVersion: first.metadata.resourceVersion })
    const names = [...first.items, ...second.items].map(({ metadata }) => metadata.name)
    expect(names).toEqual(['a', 'b', 'c', 'd', 'e'])
    const at = first.metadata.resourceVersion
    const exact = await here.ask(`${policies}?resourceVersion=${at}&resourceVersionMatch=Exact`)
    expect([exact.value.items.length, exact.value.metadata.resourceVersion]).toEqual([5, at])
    const newer = await here.ask(`${policies}?resourceVersion=${at}&resourceVersionMatch=NotOlderThan&limit=500`)
    expect(newer.value.items).toHaveLength(6)
    expect((await here.ask(`${policies}?fieldSelector=metadata.name%3Dc`)).value.items).toHaveLength(1)
    expect((await here.ask(`${policies}?fieldSelector=metadata.name!%3Dc,metadata.namespace%3Dx`)).value.items).toEqual(
      [],
    )
    const large = await here.ask(`${policies}?resourceVersion=${Number(at) + 99999}&resourceVersionMatch=NotOlderThan`)
    expect([large.status, large.value.details.causes[0].reason]).toEqual([504, 'ResourceVersionTooLarge'])
    expect(statusOf(await here.ask(`${policies}?labelSelector=(`))).toEqual([400, 'Status', 400, 'BadRequest'])
    expect(statusOf(await here.ask(`${policies}?continue=x`))).toEqual([400, 'Status', 400, 'BadRequest'])
    expect(statusOf(await here.ask(`${policies}?unheard=of`))).toEqual([400, 'Status', 400, 'BadRequest'])
  })

  it('whose history is gone report that, with a way to continue that may have gaps', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'reprise-kubernetes-'))
    const url = `sqlite:${join(folder, 'x.db')}`
    const brief = resource('brief', { retain: { checkpoints: 1, history: 'needed' } })
    const at = '/apis/resources.reprise/v1/brief'
    const before = await startServer({ url, definitions: [brief] })
    for (const name of ['a', 'b', 'c']) await before.ask(at, { body: { metadata: { name }, spec: {} } })
    const { value: first } = await before.ask(`${at}?limit=1`)
    const handle = await before.rp.open(brief)
    await handle.delete('b')
    await handle.checkpoint()
    await handle.update({ name: 'c', revision: 'any', spec: { n: 1 } })
    await handle.checkpoint()
    await before.rp.drill()
    await before.rp.collect()
    await before.close()
    // The memory of the previous server is gone.
    const after = await startServer({ url, definitions: [brief] })
    const old = first.metadata.resourceVersion
    const watched = await after.server(requestOf(`${at}?watch=1&resourceVersion=${old}`))
    const event = JSON.parse(await watched.text())
    expect(event).toMatchObject({ type: 'ERROR', object: { kind: 'Status', code: 410, reason: 'Expired' } })
    const exact = await after.ask(`${at}?resourceVersion=${old}&resourceVersionMatch=Exact`)
    expect(statusOf(exact)).toEqual([410, 'Status', 410, 'Expired'])
    const gone = await after.ask(`${at}?limit=1&continue=${first.metadata.continue}`)
    expect(statusOf(gone)).toEqual([410, 'Status', 410, 'Expired'])
    const rest = await after.ask(`${at}?continue=${gone.value.metadata.continue}`)
    expect(rest.value.items.map(({ metadata }: { metadata: { name: string } }) => metadata.name)).toEqual(['c'])
    await after.close()
    rmSync(folder, { recursive: true, force: true })
  })
})

describe('watches', () => {
  it('give every change after a revision, and where to go on', async () => {
    const { value: made } = await send('POST', base, site('w1', 1, { labels: { w: '1' } }))
    const at = made.metadata.resourceVersion
    const watching = lines(
      `${base}?watch=1&resourceVersion=${at}&labelSelector=w&allowWatchBookmarks=true&timeoutSeconds=1`,
    )
    const merge = patchAs('application/merge-patch+json')
    await send('PATCH', `${base}/w1`, { spec: { replicas: 2 } }, merge)
    await send('PATCH', `${base}/w1`, { metadata: { labels: { w: null } } }, merge)
    await send('PATCH', `${base}/w1`, { metadata: { labels: { w: '2' } } }, merge)
    await send('DELETE', `${base}/w1`)
    const events = await watching
    expect(events.map(({ type }) => type)).toEqual(['MODIFIED', 'DELETED', 'ADDED', 'DELETED', 'BOOKMARK'])
    const versions = events.map(({ object }) => Number(object.metadata.resourceVersion))
    expect(versions).toEqual([...versions].sort((a, b) => a - b))
    expect(versions[3]).toBeGreaterThan(versions[2]!)
    expect(Object.keys(events[4]!.object)).toEqual(['kind', 'apiVersion', 'metadata'])
  })

  it('start with all existing objects, and report their end', async () => {
    const at = '/apis/notes.example.com/v1beta1/namespaces/first/notes'
    await send('POST', at, { metadata: { name: 'n1' }, spec: {} })
    await send('POST', at, { metadata: { name: 'n2' }, spec: {} })
    const initial = 'sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true'
    const [one, two, end] = await lines(`${at}?watch=true&${initial}`, 3)
    expect([one!.type, two!.type, end!.type]).toEqual(['ADDED', 'ADDED', 'BOOKMARK'])
    expect(end!.object.metadata).toMatchObject({ annotations: { 'k8s.io/initial-events-end': 'true' } })
    expect((await lines(`${at}?watch=true&resourceVersion=0&timeoutSeconds=1`)).map(({ type }) => type)).toEqual([
      'ADDED',
      'ADDED',
    ])
    expect(statusOf(await here.ask(`${at}?watch=true&sendInitialEvents=true`))).toEqual([
      400,
      'Status',
      400,
      'BadRequest',
    ])
    // A revision that this history does not have yet, and one of another history.
    const beyond = Number(end!.object.metadata.resourceVersion) + 99_999
    expect((await lines(`${at}?watch=true&resourceVersion=${beyond}`))[0]).toMatchObject({
      type: 'ERROR',
      object: { code: 410 },
    })
    expect(statusOf(await here.ask(`${at}?watch=true&resourceVersion=99999`))).toEqual([410, 'Status', 410, 'Expired'])
  })

  it('are bounded in number, and end with the server', async () => {
    const server = await startServer({ definitions: [sites], limits: { streams: 1 } })
    const watching = await server.server(requestOf(`${base}?watch=1`))
    const refused = await server.ask(`${base}?watch=1`)
    expect([...statusOf(refused), refused.headers.get('retry-after')]).toEqual([
      503,
      'Status',
      503,
      'ServiceUnavailable',
      '1',
    ])
    const text = watching.text()
    await server.close()
    expect(await text).toBe('')
  })
})

describe('a namespace', () => {
  const at = (namespace: string) => `/apis/notes.example.com/v1beta1/namespaces/${namespace}/notes`

  it('is a collection of its own, with a history of its own', async () => {
    const { value } = await send('POST', at('team-a'), {
      metadata: { name: 'x', namespace: 'team-a' },
      spec: { of: 'a' },
    })
    expect(value.metadata).toMatchObject({ name: 'x', namespace: 'team-a' })
    expect((await here.ask(`${at('team-b')}/x`)).status).toBe(404)
    const handle = await here.rp.open(notes, 'team-a')
    expect((await handle.get('x'))!.spec).toEqual({ of: 'a' })
    await handle.close()
    expect((await here.ask(at('nobody'))).value).toMatchObject({ kind: 'NoteList', items: [] })
    expect(await here.rp.head('resource/notes/nobody')).toBeNull()
    const all = await here.ask('/apis/notes.example.com/v1beta1/notes')
    expect([...statusOf(all), all.value.message]).toEqual([
      ...[400, 'Status', 400, 'BadRequest', 'notes have one history per namespace: name one namespace'],
    ])
    expect((await here.ask('/apis/resources.reprise/v1/namespaces/x/sites')).status).toBe(404)
    expect((await here.ask(at('Not_A_Name'))).status).toBe(404)
  })

  it('is not there for a token that does not reach it', async () => {
    await send('POST', at('team-b'), { metadata: { name: 'secret' }, spec: {} })
    expect((await here.ask(at('team-a'), { as: 'team' })).value.items).toHaveLength(1)
    const words = async (path: string, ask: Ask = {}) => {
      const { status, value } = await here.ask(path, { as: 'team', ...ask })
      return [status, JSON.stringify(value)]
    }
    const nothing = await words('/apis/notes.example.com/v1beta1/namespaces/team-b/others')
    expect(nothing[0]).toBe(404)
    const body = { metadata: { name: 'new' }, spec: {} }
    for (const [path, ask] of [
      [at('team-b'), {}],
      [`${at('team-b')}/secret`, {}],
      [`${at('team-b')}/none`, {}],
      [`${at('team-b')}?watch=1`, {}],
      [at('team-b'), { body }],
      [`${at('team-b')}/secret`, { method: 'DELETE' }],
      [`${at('team-b')}/secret/status`, { method: 'PUT', body }],
      ['/apis/notes.example.com/v1beta1/notes', {}],
      [base, {}],
    ] as [string, Ask][]) {
      expect([path, ...(await words(path, ask))]).toEqual([path, ...nothing])
    }
    expect(statusOf(await here.ask(at('team-a'), { as: 'reader', body }))).toEqual([403, 'Status', 403, 'Forbidden'])
    expect(statusOf(await here.ask(at('team-a'), { as: null }))).toEqual([401, 'Status', 401, 'Unauthorized'])
  })
})
