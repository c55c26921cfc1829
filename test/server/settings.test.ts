// The settings of a server and their origins: correct for each origin, and never a secret.

import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { afterEach, expect, it } from 'vitest'
import { serveSettings, withoutSecrets } from '../../src/cli/serve-settings.ts'
import { open } from '../../src/index.ts'
import { resource } from '../../src/layers/resource/index.ts'
import type { ServerSetting } from '../../src/server/index.ts'
import { temporaryFolder } from '../support/fixture.ts'
import { type Cleanups, Client, placeOn, startServe, tokenIn } from './serving.ts'
import { secret, startServer, type TestServer, tokens } from './support.ts'

const cleanups: Cleanups = []
afterEach(async () => {
  for (const clean of cleanups.splice(0).reverse()) await clean()
})

type Rows = Readonly<Record<string, Omit<ServerSetting, 'name'>>>

function byName(settings: readonly ServerSetting[]): Rows {
  const names = settings.map(({ name }) => name)
  expect(names).toEqual([...new Set(names)])
  return Object.fromEntries(settings.map(({ name, ...rest }) => [name, rest]))
}

const rowsOf = async (here: TestServer) => byName((await here.ask('/v1/settings')).value.settings)

it('distinguishes defaults from values that were given, stored or declared', async () => {
  const folder = temporaryFolder('settings')
  const url = `sqlite:${join(folder, 'store.db')}`
  const key = randomBytes(32)
  const keys = { current: 'a', keys: { a: key } }
  const first = await open(url, {
    redundancy: false,
    keys,
    housekeeping: false,
    tiers: { warm: { at: join(folder, 'warm'), after: '1d' } },
  })
  await first.close()
  const rp = await open(url, { keys, housekeeping: false, limits: { forkDepth: 7 } })
  const sites = resource('sites', { retain: { checkpoints: 3, history: 'needed' } })
  const here = await startServer({ rp, mcp: 'read', limits: { streams: 5 }, definitions: [sites] })
  cleanups.push(() => here.close())
  const rows = await rowsOf(here)
  expect(rows).toMatchObject({
    access: { value: 'tokens', from: 'option' },
    mcp: { value: 'read', from: 'option', by: 'mcp of serve()' },
    readOnly: { value: false, from: 'default' },
    cacheKeep: { value: null, from: 'default' },
    'limits.streams': { value: 5, from: 'option', by: 'limits of serve()' },
    'limits.concurrency': { value: 128, from: 'default' },
    'engine.limits.forkDepth': { value: 7, from: 'option', by: 'limits of open()' },
    'engine.limits.treeDepth': { value: 128, from: 'default' },
    encryption: { value: true, from: 'option' },
    redundancy: { value: false, from: 'stored' },
    tiers: { value: [{ name: 'warm', at: join(folder, 'warm') }], from: 'stored' },
    mirror: { value: null, from: 'default' },
    definitions: { value: ['resource sites'], from: 'option' },
    'retain of resource sites': { value: { checkpoints: 3, history: 'needed' }, from: 'declared' },
  })
  const said = JSON.stringify(rows)
  for (const { name } of tokens) expect(said).not.toContain(secret(name))
  expect(said).not.toContain(key.toString('base64'))
  // A token for a part of the store learns nothing about the rest.
  expect((await here.ask('/v1/settings', { as: 'ann' })).status).toBe(403)
  expect((await here.ask('/v1/settings', { as: 'reader' })).status).toBe(200)
})

it('the program around it names the origin, and a tenant does not see it', async () => {
  const red = await open('memory:', { housekeeping: false, namespace: 'red' })
  cleanups.push(() => red.close())
  const settings = [{ name: 'readOnly', value: false, from: 'command line', by: '--changes' } as const]
  const token = { name: 'red', token: secret('red'), role: 'write', namespaces: ['red'] } as const
  const here = await startServer({ namespaces: { red }, tokens: [...tokens, token], settings } as never)
  cleanups.push(() => here.close())
  expect((await rowsOf(here)).readOnly).toEqual({ value: false, from: 'command line', by: '--changes' })
  const ofRed = byName((await here.ask('/v1/settings', { as: 'red' })).value.settings)
  expect(ofRed).toMatchObject({ readOnly: { value: false, from: 'default' }, namespace: { value: 'red' } })
})

it('reprise serve distinguishes its command line and the environment', async () => {
  const place = await placeOn('sqlite', cleanups)
  const chunks = join(place.folder, 'chunks')
  const env = { ...process.env, REPRISE_BLOBS: chunks }
  await startServe(place, cleanups, ['--mcp', 'read', '--cache-unused', '7d'], env)
  const token = tokenIn(place.folder)
  const { value } = await new Client(place.port, token).ask('/v1/settings')
  const rows = byName(value.settings)
  expect(rows).toMatchObject({
    store: { value: place.url, from: 'command line', by: '--url' },
    access: { value: 'tokens of tokens.json', from: 'command line', by: '--token-file' },
    blobs: { value: chunks, from: 'environment', by: 'REPRISE_BLOBS' },
    mcp: { value: 'read', from: 'command line', by: '--mcp' },
    cacheKeep: { value: { unused: '7d' }, from: 'command line', by: '--cache-unused' },
    port: { value: place.port, from: 'command line', by: '--port' },
    host: { value: '127.0.0.1', from: 'default' },
    encryption: { value: false, from: 'default' },
  })
  expect(JSON.stringify(rows)).not.toContain(token)
})

it.each([
  ['postgres://me:p@ss/w?rd@db.example/app?password=x', 'postgres://db.example/app'],
  ['postgres://:only@db.example/app', 'postgres://db.example/app'],
  ['s3://bucket/prefix?endpoint=http://u:p@host', 's3://bucket/prefix'],
  ['sqlite:.reprise/reprise.db', 'sqlite:.reprise/reprise.db'],
])('no password of %s is shown', (url, shown) => {
  const before = process.env.REPRISE_URL
  process.env.REPRISE_URL = url
  try {
    const rows = serveSettings({}, { url, host: '::1', port: 1, tokenFile: 't.json' })
    const row = rows.find(({ name }) => name === 'store')
    for (const hidden of ['p@ss', 'rd@', 'only', 'u:p', 'password']) expect(row!.value).not.toContain(hidden)
    expect(row).toEqual({ name: 'store', value: withoutSecrets(url), from: 'environment', by: 'REPRISE_URL' })
    if (!url.startsWith('s3')) expect(row!.value).toBe(shown)
  } finally {
    if (before === undefined) delete process.env.REPRISE_URL
    else process.env.REPRISE_URL = before
  }
})
