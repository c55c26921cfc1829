// The routes of the build caches, each called as its clients do: artifacts are returned as stored, a promised digest is
// checked, damaged data is a miss, and no scope reads the artifacts of another.

import { createHash } from 'node:crypto'
import { afterEach, describe, expect, it } from 'vitest'
import { hostOf } from '../../src/engine/host/host.ts'
import { open } from '../../src/index.ts'
import { Access, cacheScopes } from '../../src/server/access.ts'
import type { AccessToken } from '../../src/server/index.ts'
import { secret, startServer, type TestServer, tokens as usual } from './support.ts'

const token = (name: string, more: Partial<AccessToken> = {}): AccessToken => ({
  ...{ name, token: secret(name), role: 'write' },
  ...more,
})

const tokens: readonly AccessToken[] = [
  ...usual,
  token('pull', { cache: { scope: 'pull-7' } }),
  token('other', { cache: { scope: 'pull-8' } }),
  token('alone', { cache: { scope: 'alone', reads: [] } }),
  token('looks', { role: 'read', cache: { scope: 'pull-7' } }),
  token('both', { scopes: ['bob/'], cache: { scope: 'main' } }),
]

const cleanups: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

async function served(options: Parameters<typeof startServer>[0] = {}): Promise<TestServer> {
  const here = await startServer({ ...options, tokens } as Parameters<typeof startServer>[0])
  cleanups.push(() => here.close())
  return here
}

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')
const octets = { 'content-type': 'application/octet-stream' }
const bytes = (text: string) => Buffer.from(text)

interface Door {
  readonly name: string
  /** The path under which this text may lie. */
  readonly at: (text: string, n?: number) => string
  readonly put: number
  /** It never overwrites. */
  readonly isOnce?: true
  /** The key is a promise of the content: nothing else can lie there. */
  readonly isPromise?: true
}

const doors: readonly Door[] = [
  { name: 'turbo', at: (_, n = 1) => `/v8/artifacts/abcdef012345678${n}?teamId=team_x`, put: 202 },
  { name: 'nx', at: (_, n = 1) => `/v1/cache/123456789012345678${n}`, put: 200, isOnce: true },
  { name: 'bazel ac', at: (_, n = 1) => `/cache/bazel/ac/${sha256(String(n))}`, put: 200 },
  { name: 'bazel cas', at: (text) => `/cache/bazel/some/instance/cas/${sha256(text)}`, put: 200, isPromise: true },
  { name: 'ccache', at: (_, n = 1) => `/cache/cc/b1/c8hs2d${n}`, put: 200 },
]

const put = (here: TestServer, path: string, text: string, as = 'owner', headers: Record<string, string> = {}) =>
  here.ask(path, { method: 'PUT', as, body: bytes(text), headers: { ...octets, ...headers } })
const get = (here: TestServer, path: string, as = 'owner') => here.ask(path, { as })

describe.each(doors)('$name', ({ at, put: status, isOnce, isPromise }) => {
  it('returns stored artifacts, to GET and to HEAD, and 404 for others', async () => {
    const here = await served()
    const text = 'x'.repeat(300_000)
    expect((await get(here, at(text))).status).toBe(404)
    expect((await here.ask(at(text), { method: 'HEAD' })).status).toBe(404)
    expect((await put(here, at(text), text)).status).toBe(status)
    const got = await get(here, at(text))
    expect([got.status, got.value, got.headers.get('content-length')]).toEqual([200, text, String(text.length)])
    const head = await here.ask(at(text), { method: 'HEAD' })
    expect([head.status, head.value, head.headers.get('content-length')]).toEqual([200, '', String(text.length)])
    expect((await here.rp.verify()).faults).toEqual([])
  })

  it('gives the newest of two, or refuses the second', async () => {
    const here = await served()
    await put(here, at('one'), 'one')
    const again = await put(here, at('one'), 'one')
    const second = await put(here, at('one'), 'two')
    expect([again.status, second.status]).toEqual(isOnce ? [409, 409] : [status, isPromise ? 400 : status])
    expect((await get(here, at('one'))).value).toBe(isOnce || isPromise ? 'one' : 'two')
    expect(await here.rp.list({ prefix: 'artifact/' })).toHaveLength(1)
  })

  it('B9: main does not read artifacts of a pull request, nor does another pull request', async () => {
    const here = await served()
    expect((await put(here, at('bad', 1), 'bad', 'pull')).status).toBe(status)
    for (const as of ['owner', 'reader', 'other', 'alone', 'both']) {
      expect([as, (await get(here, at('bad', 1), as)).status]).toEqual([as, 404])
      expect([as, (await here.ask(at('bad', 1), { as, method: 'HEAD' })).status]).toEqual([as, 404])
    }
    expect((await get(here, at('bad', 1), 'pull')).value).toBe('bad')
    expect((await get(here, at('bad', 1), 'looks')).value).toBe('bad')
    // In the other direction it may read; its own puts on top stay its own.
    await put(here, at('good', 2), 'good', 'owner')
    expect((await get(here, at('good', 2), 'pull')).value).toBe('good')
    expect((await get(here, at('good', 2), 'alone')).status).toBe(404)
    await put(here, at('good', 2), 'evil', 'pull')
    expect((await get(here, at('good', 2), 'owner')).value).toBe('good')
    await here.ask(at('good', 2), { as: 'pull', method: 'DELETE' })
    expect((await get(here, at('good', 2), 'owner')).value).toBe('good')
  })

  it('refuses writes of read-only tokens, and requests without a token for a cache', async () => {
    const here = await served()
    await put(here, at('mine'), 'mine')
    const asked = async (as: string | null) => [
      (await here.ask(at('mine'), { as })).status,
      (await here.ask(at('none', 3), { as })).status,
      (await here.ask(at('none', 3), { method: 'PUT', as, body: bytes('none'), headers: octets })).status,
    ]
    expect(await asked(null)).toEqual([401, 401, 401])
    expect(await asked('reader')).toEqual([200, 404, 403])
    expect(await asked('looks')).toEqual([200, 404, 403])
    // Tokens that reach a part of the store learn nothing, not even that there is something.
    expect(await asked('ann')).toEqual([403, 403, 403])
    expect((await get(here, at('none', 3))).status).toBe(404)
  })

  it('takes the password of Basic for the token', async () => {
    const here = await served()
    await put(here, at('mine'), 'mine')
    const basic = (password: string) => ({
      authorization: `Basic ${Buffer.from(`build:${password}`).toString('base64')}`,
    })
    expect((await here.ask(at('mine'), { as: null, headers: basic(secret('owner')) })).value).toBe('mine')
    expect((await here.ask(at('mine'), { as: null, headers: basic('wrong') })).status).toBe(401)
  })

  it('keeps nothing of a body that ends early or is too large, and the next one is kept', async () => {
    const here = await served({ limits: { artifactBytes: 1000 } })
    const cut = new ReadableStream<Uint8Array>({
      start: (controller) => controller.enqueue(bytes('half')),
      pull: (controller) => controller.error(new Error('the client is gone')),
    })
    const request = (body: ReadableStream<Uint8Array> | Buffer) =>
      new Request(`http://127.0.0.1:4400${at('whole')}`, {
        method: 'PUT',
        headers: { authorization: `Bearer ${secret('owner')}` },
        body: body as ReadableStream<Uint8Array>,
        duplex: 'half',
      } as RequestInit)
    expect((await here.server(request(cut))).status).toBeGreaterThanOrEqual(400)
    expect((await here.server(request(Buffer.alloc(1001)))).status).toBe(413)
    const endless = new ReadableStream<Uint8Array>({ pull: (controller) => controller.enqueue(Buffer.alloc(600)) })
    expect((await here.server(request(endless))).status).toBe(413)
    expect((await get(here, at('whole'))).status).toBe(404)
    expect(await here.rp.list({ prefix: 'artifact/' })).toEqual([])
    expect((await put(here, at('whole'), 'whole')).status).toBe(status)
    expect((await get(here, at('whole'))).value).toBe('whole')
  })

  it('takes one key from many at the same moment, whole', async () => {
    const here = await served()
    const texts = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'].map((text) => (isPromise ? 'same' : text.repeat(50_000)))
    const told = await Promise.all(texts.map((text) => put(here, at('same'), text)))
    const [ok, rest] = [
      told.filter((each) => each.status === status).length,
      told.filter((each) => each.status === 409),
    ]
    expect([ok, rest.length]).toEqual(isOnce ? [1, 7] : [8, 0])
    expect(texts).toContain((await get(here, at('same'))).value)
  })

  it('B9: returns 404 for damaged artifacts, and accepts them again', async () => {
    const here = await served({ rp: await open('memory:', { housekeeping: false, redundancy: false }) })
    const text = Array.from({ length: 400_000 }, (_, i) => String.fromCharCode(33 + ((i * i * 31) % 90))).join('')
    await put(here, at(text), text)
    const { store } = hostOf(here.rp).kernel
    const listed = await store.blobs.list(null, 100)
    for (const { digest } of listed) {
      const [chunk] = await store.blobs.get([digest])
      await store.blobs.delete([digest], Number.MAX_SAFE_INTEGER)
      const spoiled = Buffer.from(chunk!)
      spoiled[spoiled.length >> 1]! ^= 1
      await store.blobs.put([{ digest, bytes: spoiled }])
    }
    expect(listed.length).toBeGreaterThan(1)
    expect((await get(here, at(text))).status).toBe(404)
    expect((await put(here, at(text), text)).status).toBe(status)
    expect((await get(here, at(text))).value).toBe(text)
  })
})

describe('turbo', () => {
  it('returns duration and signature unchanged, and reports several at once', async () => {
    const here = await served()
    const path = '/v8/artifacts/abcdef0123456789'
    const headers = { 'x-artifact-duration': '1234', 'x-artifact-tag': 'c2lnbmF0dXJl' }
    await put(here, `${path}?slug=web`, 'tar', 'owner', headers)
    const got = await get(here, `${path}?slug=web`)
    expect(got.headers.get('x-artifact-duration')).toBe('1234')
    expect(got.headers.get('x-artifact-tag')).toBe('c2lnbmF0dXJl')
    expect((await get(here, path)).status).toBe(404)
    expect((await get(here, `${path}?slug=../main`)).status).toBe(400)
    const hashes = ['abcdef0123456789', 'none']
    expect((await here.ask('/v8/artifacts?slug=web', { body: { hashes } })).value).toEqual({
      abcdef0123456789: { size: 3, taskDurationMs: 1234, tag: 'c2lnbmF0dXJl' },
      none: null,
    })
    expect((await here.ask('/v8/artifacts/status?slug=web')).value).toEqual({ status: 'enabled' })
    const events = [{ sessionId: 's', source: 'REMOTE', hash: 'abcdef0123456789', event: 'HIT', duration: 5 }]
    expect((await here.ask('/v8/artifacts/events', { body: events })).status).toBe(200)
    expect((await here.ask('/metrics')).value).toMatch(/reprise_cache_events_total\{source="remote",event="hit"\} 1/)
    const caches = [{ door: 'turbo', hits: 1, misses: 1 }]
    expect((await here.ask('/v1/caches')).value).toEqual({ caches, memos: [] })
    expect((await here.ask('/metrics')).value).toMatch(/reprise_cache_lookups_total\{door="turbo",outcome="miss"\} 1/)
    // A new signature of the same bytes is a new artifact.
    await put(here, `${path}?slug=web`, 'tar', 'owner', { ...headers, 'x-artifact-tag': 'bmV3' })
    expect((await get(here, `${path}?slug=web`)).headers.get('x-artifact-tag')).toBe('bmV3')
  })
})

describe('plain paths', () => {
  it('can be no other place, however they are written', async () => {
    const here = await served()
    await put(here, '/cache/cc/a/b', 'one')
    await put(here, '/v1/cache/12', 'nx')
    for (const path of [
      '/cache/.nx/12',
      '/cache/cc/a%2F..%2Fa/b',
      '/cache/cc/a//b',
      '/cache/cc/a/b/',
      '/cache/cc/a%00b',
    ]) {
      expect([path, (await get(here, path)).status]).toEqual([path, 400])
    }
    expect((await get(here, '/cache/cc/x/../a/b')).value).toBe('one')
    expect((await put(here, `/cache/cc/${'k'.repeat(400)}`, 'x')).status).toBe(400)
  })

  it('below cas/ are digests, or refused', async () => {
    const here = await served()
    for (const key of ['nothash', sha256('hello').toUpperCase(), `${sha256('hello')}0`]) {
      expect((await put(here, `/cache/bazel/cas/${key}`, 'hello')).status).toBe(400)
    }
  })

  it('drop a stalled body, and leave slots to others meanwhile', async () => {
    const here = await served({ limits: { concurrency: 4, requestMs: 3000 } })
    const still = () =>
      here.server(
        new Request(`http://127.0.0.1:4400/cache/cc/still`, {
          ...{ method: 'PUT', headers: { authorization: `Bearer ${secret('pull')}` } },
          body: new ReadableStream<Uint8Array>({ start: (controller) => controller.enqueue(bytes('he')) }),
          duplex: 'half',
        } as RequestInit),
      )
    const stills = [still(), still(), still()]
    expect((await here.ask('/cache/status')).status).toBe(200)
    expect((await Promise.all(stills)).map((each) => each.status).sort()).toEqual([408, 408, 503])
    expect((await put(here, '/cache/cc/still', 'still')).status).toBe(200)
  })

  it('are forgotten by DELETE, and answer the verbs of WebDAV', async () => {
    const here = await served()
    expect((await here.ask('/cache/sc/', { method: 'PROPFIND' })).status).toBe(207)
    expect((await here.ask('/cache/sc/7/d/', { method: 'PROPFIND' })).value).toContain('<D:collection/>')
    expect((await here.ask('/cache/sc/7/d/', { method: 'MKCOL' })).status).toBe(201)
    expect((await here.ask('/cache/sc/7/d/x', { method: 'PROPFIND' })).status).toBe(404)
    await put(here, '/cache/sc/7/d/x', 'object')
    expect((await here.ask('/cache/sc/7/d/x', { method: 'PROPFIND' })).value).toContain('<D:getcontentlength>6<')
    expect((await here.ask('/cache/sc/7/d/x', { method: 'PROPFIND', as: 'reader' })).status).toBe(207)
    expect((await here.ask('/cache/sc/7/d/', { method: 'MKCOL', as: 'reader' })).status).toBe(403)
    expect((await here.ask('/cache/sc/7/d/x', { method: 'DELETE' })).status).toBe(204)
    expect((await here.ask('/cache/sc/7/d/x', { method: 'DELETE' })).status).toBe(404)
    expect((await get(here, '/cache/sc/7/d/x')).status).toBe(404)
  })

  it('report the scopes of a token', async () => {
    const here = await served()
    expect((await here.ask('/cache/status', { as: 'pull' })).value).toEqual({
      scope: 'pull-7',
      reads: ['pull-7', 'main'],
      mayWrite: true,
    })
    expect((await here.ask('/cache/status', { as: 'ann' })).status).toBe(403)
  })
})

describe('a token with a cache', () => {
  it('reaches no timelines, unless it has scopes as well', async () => {
    const here = await served()
    await put(here, '/cache/cc/a', 'main')
    expect((await here.ask('/v1/timelines', { as: 'pull' })).value.timelines).toEqual([])
    const id = encodeURIComponent('artifact/main/cc/a')
    for (const path of [`/v1/timelines/${id}`, `/v1/timelines/${id}/export`, `/v1/timelines/${id}/history`]) {
      expect([path, (await here.ask(path, { as: 'pull' })).status]).toEqual([path, 404])
    }
    const appended = await here.ask(`/v1/timelines/${id}/entries`, { as: 'pull', body: { entries: [{ type: 'x' }] } })
    expect(appended.status).toBe(404)
    expect((await get(here, '/cache/cc/a', 'both')).value).toBe('main')
    expect((await here.ask(`/v1/timelines/${id}`, { as: 'both' })).status).toBe(404)
  })

  it('is refused where it could make main read something else', () => {
    const made = (cache: unknown) => new Access([token('x', { cache } as Partial<AccessToken>)], false, () => 0)
    for (const cache of [
      { scope: 'main', reads: ['pull-7'] },
      { scope: '../main' },
      { scope: 'a/b' },
      { scope: '' },
      { scopes: 'pull-7' },
      { scope: 'pull-7', read: ['main'] },
      { scope: 'pull-7', reads: 'main' },
      {},
      null,
    ]) {
      expect(() => made(cache)).toThrow(/INVALID_ARGUMENT/)
    }
    for (const misspelt of [{ cach: { scope: 'pull-7' } }, { scope: ['job/'] }, { namespace: ['a'] }]) {
      expect(() => new Access([token('x', misspelt as Partial<AccessToken>)], false, () => 0)).toThrow(
        /INVALID_ARGUMENT/,
      )
    }
    const twice = [token('x'), { ...token('y', { cache: { scope: 'pull-7' } }), token: token('x').token }]
    expect(() => new Access(twice, false, () => 0)).toThrow('two names have the same token')
    expect(cacheScopes({ name: 'x', role: 'read', scopes: [], cache: { scope: 'main' } })!.all).toEqual(['main'])
  })
})
