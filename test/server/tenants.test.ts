// Two tenants and every route: what belongs to one is, for the other, as if it were not there: not its content, not its name,
// not even that it exists (G14).

import { mkdtempSync, rmSync } from 'node:fs'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { config } from '../../src/layers/config/index.ts'
import { job } from '../../src/layers/job/index.ts'
import { resource } from '../../src/layers/resource/index.ts'
import type { AccessToken } from '../../src/server/index.ts'
import type { Route } from '../../src/server/route.ts'
import { routes } from '../../src/server/routes/index.ts'
import type { Schema } from '../../src/server/schema.ts'
import { at, requestOf, startServer, type TestServer, tokens } from './support.ts'

const notes = resource('notes', { api: { namespaced: true } })
let here: TestServer
beforeAll(async () => {
  const ann: AccessToken = { ...tokens.find(({ name }) => name === 'ann')!, scopes: ['ann/', 'resource/notes/ann'] }
  const own = [...tokens.filter(({ name }) => name !== 'ann'), ann]
  const bobs = config<{ text: string }>('bob-config')
  here = await startServer({ mcp: 'act', tokens: own, definitions: [notes, bobs] })
  await (await here.rp.open(bobs)).set({ text: 'only-bob-knows' })
  const note = await here.rp.open(notes, 'bob')
  await note.create({ name: 'bob-note', labels: { only: 'bob-label' }, spec: { text: 'only-bob-knows' } })
  const entries = [{ type: 'secret', data: { text: 'only-bob-knows' } }]
  await here.ask(`${at('bob/x')}/entries`, { body: { entries }, as: 'bob' })
  await here.ask(`${at('bob/x')}/savepoints`, { body: { label: 'bob-label' }, as: 'bob' })
  await here.ask(`${at('ann/x')}/entries`, { body: { entries: [{ type: 'mine' }] }, as: 'ann' })
  const failing = { source: ['bob-item'], key: (item: string) => item, retry: { attempts: 1 } }
  const each = () => {
    throw new Error('bob-failure')
  }
  await here.rp.run(job('bob', { ...failing, each })).result()
})
afterAll(() => here.close())

/** The least that a schema takes. */
function sample(schema: Schema): unknown {
  if (schema.enum) return schema.enum[0]
  switch (schema.type) {
    case 'integer':
    case 'number':
      return schema.minimum ?? 1
    case 'boolean':
      return true
    case 'array':
      return Array.from({ length: schema.minItems ?? 0 }, () => sample(schema.items ?? {}))
    case 'object': {
      const needed = Object.entries(schema.properties ?? {}).filter(([name]) => schema.required?.includes(name))
      return Object.fromEntries(needed.map(([name, inner]) => [name, sample(inner)]))
    }
    default:
      return 'sample'
  }
}

async function asked(route: Route, id: string, other: Readonly<Record<string, string>>) {
  const params: Record<string, string> = { timeline: id, ...other }
  const path = route.path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(params[name] ?? 'other'))
  const needed = Object.entries(route.query ?? {}).filter(([, { isRequired }]) => isRequired)
  const query = needed.map(([name, schema]) => `${name}=${String(sample(schema))}`).join('&')
  const hasBody = route.method !== 'GET' && (route.body ?? route.takesBytes ?? route.takesStream) !== undefined
  const body = route.takesBytes || route.takesStream ? { a: 1 } : sample(route.body ?? {})
  const ask = { method: route.method, as: 'ann', ...(hasBody && { body }) }
  return await here.ask(query === '' ? path : `${path}?${query}`, ask)
}

const answering = routes.filter(({ isStream }) => !isStream)

it.each(answering.filter(({ path }) => path.includes('{timeline}')).map((route) => [route.id, route] as const))(
  '%s tells the other tenant the same of what is there and of what is not',
  async (_, route) => {
    const [foreign, missing] = [await asked(route, 'bob/x', {}), await asked(route, 'bob/none', {})]
    expect(foreign.status).toBe(404)
    const shown = (told: typeof foreign, id: string) => JSON.stringify(told.value).replaceAll(id, 'ID')
    expect([foreign.status, shown(foreign, 'bob/x')]).toEqual([missing.status, shown(missing, 'bob/none')])
    expect([...foreign.headers.keys()]).toEqual([...missing.headers.keys()])
  },
)

const object = { group: 'resources.reprise', version: 'v1', plural: 'notes' }

it.each(answering.filter(({ path }) => path.includes('{plural}')).map((route) => [route.id, route] as const))(
  '%s tells the other tenant the same of a namespace and an object that are there and of those that are not',
  async (_, route) => {
    const told = async (namespace: string, name: string) => {
      const { status, headers, value } = await asked(route, '', { ...object, namespace, name })
      return [status, JSON.stringify(value), ...headers.keys()]
    }
    const missing = await told('answers', 'none')
    expect(missing[0]).toBe(404)
    expect(await told('bob', 'bob-note')).toEqual(missing)
    expect(await told('bob', 'none')).toEqual(missing)
  },
)

it.each(answering.filter(({ path }) => !path.includes('{timeline}')).map((route) => [route.id, route] as const))(
  '%s says nothing of the other tenant',
  async (_, route) => {
    const names = { ...object, namespace: 'ann', queue: 'bob', job: 'bob', code: 'FENCED' }
    const { value } = await asked(route, '', { ...names, config: 'bob-config' })
    const text = typeof value === 'string' ? value : JSON.stringify(value)
    expect(text).not.toMatch(/only-bob-knows|bob\/x|bob-item|bob-failure|bob-label|bob-note/)
    if (!route.path.includes('{config}')) return expect(text).not.toContain('bob-config')
    // Not even that it exists: the same words as for one that is not there.
    const { value: missing } = await asked(route, '', { ...names, config: 'bob-nothing' })
    expect(text.replaceAll('bob-config', 'NAME')).toBe(JSON.stringify(missing).replaceAll('bob-nothing', 'NAME'))
  },
)

/** All events of Ann's stream up to `last`, which comes after all of Bob's concurrent actions. */
async function followed(path: string, last: string, meanwhile: () => Promise<unknown>): Promise<string> {
  const response = await here.server(requestOf(path, { as: 'ann' }))
  expect(response.status).toBe(200)
  const reader = response.body!.getReader()
  await meanwhile()
  let text = ''
  while (!text.includes(last)) {
    const { done, value } = await reader.read()
    if (done) throw new Error(`the stream ended without ${last}: ${text}`)
    text += Buffer.from(value).toString('utf8')
  }
  await reader.cancel()
  return text
}

const foreign = /only-bob-knows|bob\/|bob-label|bob-note|secret/
let written = 0
const bothWrite = async () => {
  written += 1
  const secrets = [{ type: 'secret', data: { text: 'only-bob-knows' } }]
  await here.ask(`${at('bob/x')}/entries`, { body: { entries: secrets }, as: 'bob' })
  await here.ask(`${at('bob/new')}/entries`, { body: { entries: secrets }, as: 'bob' })
  await here.ask(`${at('ann/x')}/entries`, { body: { entries: [{ type: `mine-${written}` }] }, as: 'ann' })
}

it.each([['/v1/feed/stream?from=start'], ['/v1/feed/stream?from=now'], ['/v1/feed/stream?from=now&brief=true']])(
  'G14: the stream %s says nothing of the other tenant',
  async (path) => {
    const text = await followed(path, `mine-${written + 1}`, bothWrite)
    expect(text).not.toMatch(foreign)
  },
)

it('G14: a stream with a prefix of the other tenant is like one with an unused prefix', async () => {
  const told = async (prefix: string) => {
    const response = await here.server(requestOf(`/v1/feed/stream?from=start&prefix=${prefix}`, { as: 'ann' }))
    const text = response.status === 200 ? '' : await response.text()
    await response.body?.cancel().catch(() => undefined)
    return [response.status, text.replaceAll(prefix, 'PREFIX')]
  }
  expect(await told('bob/')).toEqual(await told('answers/'))
})

it('G14: the stream of a configuration of the other tenant is as one that is not there', async () => {
  const told = async (name: string) => {
    const { status, value, headers } = await here.ask(`/v1/configs/${name}/clients/c/stream`, { as: 'ann' })
    return [status, JSON.stringify(value).replaceAll(name, 'NAME'), ...headers.keys()]
  }
  const missing = await told('bob-nothing')
  expect(missing[0]).toBe(404)
  expect(await told('bob-config')).toEqual(missing)
})

it('G14: a watch reveals no objects in the namespace of the other tenant', async () => {
  const path = (namespace: string) => `/apis/resources.reprise/v1/namespaces/${namespace}/notes?watch=true`
  const told = async (namespace: string) => {
    const { status, value } = await here.ask(path(namespace), { as: 'ann' })
    return [status, JSON.stringify(value).replaceAll(namespace, 'NAMESPACE')]
  }
  expect(await told('bob')).toEqual(await told('answers'))
  const text = await followed(path('ann'), 'ann-note', async () => {
    await (await here.rp.open(notes, 'bob')).create({ name: 'bob-note-2', spec: { text: 'only-bob-knows' } })
    await (await here.rp.open(notes, 'ann')).create({ name: 'ann-note', spec: {} })
  })
  expect(text).not.toMatch(foreign)
})

it('G14: every route that streams is tried above', () => {
  expect(routes.flatMap(({ id, isStream }) => (isStream ? [id] : [])).sort()).toEqual(['followConfig', 'followFeed'])
  expect(new Set(routes.flatMap(({ path, mayStream }) => (mayStream ? [path] : []))).size).toBe(2)
})

it('reveals to a tenant no path, size, host or pid of the store and its processes, on any route', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'reprise-tenant-'))
  const own = await startServer({ url: `sqlite:${join(folder, 'hidden-store.db')}`, mcp: 'act', tokens })
  try {
    const { value } = await own.ask(`${at('ann/x')}/lease`, { body: { holder: 'one' }, as: 'ann' })
    await own.ask(`${at('ann/x')}/entries`, { body: { entries: [{ type: 'a' }], epoch: value.epoch }, as: 'ann' })
    await own.ask(`${at('ann/x')}/fork`, { body: { to: 'y' }, as: 'ann' })
    await own.rp.run(job('ann', { source: ['a'], key: (item: string) => item, each: () => undefined })).result()
    // The owner's own words show that the search below can find them.
    expect(JSON.stringify((await own.ask(at('ann/x'))).value)).toContain(`${hostname()}~`)
    const told = new RegExp(`hidden-store|${hostname()}~|"(?:host|process|pid)":|[:~@]${process.pid}\\b`)
    const found: string[] = []
    for (const route of answering.filter(({ method }) => method === 'GET')) {
      for (const timeline of ['ann/x', 'ann/y', 'job/ann']) {
        const params: Record<string, string> = { timeline, job: 'ann', queue: 'ann' }
        const path = route.path.replaceAll(/\{(\w+)\}/g, (_, name: string) =>
          encodeURIComponent(params[name] ?? 'other'),
        )
        const { status, value: answer } = await own.ask(path, { as: 'ann' })
        const text = typeof answer === 'string' ? answer : JSON.stringify(answer)
        const facts = /"(?:fileBytes|storeBytes|pageCount|freePages)":/.test(text)
        if (status >= 500 || facts || told.test(text)) found.push(`${route.id} of ${timeline}: ${text.slice(0, 300)}`)
      }
    }
    expect(found).toEqual([])
  } finally {
    await own.close()
    rmSync(folder, { recursive: true, force: true })
  }
})

it('lists of a tenant read its own timelines only, so that those of others take no place in them', async () => {
  const read = vi.spyOn(here.rp, 'list')
  const answers = await Promise.all(['/v1/dead-letters', '/v1/schedules'].map((path) => here.ask(path, { as: 'ann' })))
  expect(answers.map(({ value }) => value)).toEqual([{ letters: [] }, { schedules: [] }])
  expect(read.mock.calls).toEqual([])
  await here.ask('/v1/dead-letters')
  expect(read.mock.calls.length).toBeGreaterThan(0)
  read.mockRestore()
})
