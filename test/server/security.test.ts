// Access: tokens, roles, scopes, hosts, origins, sessions and one-time links, and the limits of requests.

import { chmodSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Hono } from 'hono'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { serve } from '../../src/server/index.ts'
import { readOrMakeTokens } from '../../src/server/token-file.ts'
import { newGate, temporaryFolder } from '../support/fixture.ts'
import { at, requestOf, secret, startServer, type TestServer, tokens } from './support.ts'

let here: TestServer
beforeAll(async () => {
  here = await startServer({ origins: ['https://reprise.example.com'] })
})
afterAll(() => here.close())

describe('tokens', () => {
  it.each([null, 'nobody'])('a request as %s is told nothing, whatever its path', async (as) => {
    for (const path of ['/v1', '/v1/timelines', at('x/y'), '/metrics', '/nothing', '/v1/feed/stream']) {
      const { status, value, headers } = await here.ask(path, { as })
      expect([path, status, value.code]).toEqual([path, 401, 'UNAUTHENTICATED'])
      expect(headers.get('www-authenticate')).toMatch(/^Bearer/)
    }
  })

  it('that is wrong is distinguished from a missing one', async () => {
    const detail = async (headers: Record<string, string>) =>
      (await here.ask('/v1', { as: null, headers })).value.detail
    expect(await detail({})).toBe('a token is required')
    expect(await detail({ authorization: `Bearer ${'z'.repeat(40)}` })).toMatch(
      /unknown token, or the session has ended/,
    )
  })

  it('no part of one lets anybody in, nor one with something added', async () => {
    const token = secret('owner')
    for (const wrong of [token.slice(0, -1), `${token}x`, '', ' ', token.toUpperCase()]) {
      const { status } = await here.ask('/v1', { as: null, headers: { authorization: `Bearer ${wrong}` } })
      expect(status).toBe(401)
    }
    expect((await here.ask('/v1')).status).toBe(200)
  })

  it('a server without tokens, or with weak ones, is refused', () => {
    expect(() => serve(here.rp, {} as never)).toThrow(/would be open/)
    expect(() => serve(here.rp, { tokens, readonly: true } as never)).toThrow(/did you mean readOnly/)
    expect(() => serve(here.rp, { tokens: [{ name: 'a', token: 'short', role: 'read' }] })).toThrow(/at least 32/)
    expect(() => serve(here.rp, { tokens: [tokens[0]!, tokens[0]!] })).toThrow(/same name/)
  })

  it('each role permits its named actions, and no more', async () => {
    const append = { body: { entries: [{ type: 'a' }] } }
    expect((await here.ask(`${at('x/roles')}/entries`, { ...append, as: 'reader' })).value.code).toBe('FORBIDDEN')
    expect((await here.ask(`${at('x/roles')}/entries`, { ...append, as: 'operator' })).value.code).toBe('FORBIDDEN')
    expect((await here.ask(`${at('x/roles')}/entries`, append)).status).toBe(200)
    expect((await here.ask('/v1/verify', { body: {}, as: 'reader' })).value.code).toBe('FORBIDDEN')
    expect((await here.ask('/v1/verify', { body: {}, as: 'operator' })).value.ok).toBe(true)
  })

  it('a read-only server refuses every write', async () => {
    const readOnly = serve(here.rp, { tokens, readOnly: true })
    const response = await readOnly(requestOf(`${at('x/y')}/entries`, { body: { entries: [{ type: 'a' }] } }))
    expect(response.status).toBe(403)
    await readOnly.close()
  })
})

describe('other names and other sites', () => {
  it.each(['evil.example', 'evil.example:4400', '127.0.0.1.evil.example', 'localhost.evil.example', '10.0.0.1:4400'])(
    'a request for the host %s is refused, with a token too',
    async (host) => {
      const { code, hint } = (await here.ask('/v1', { headers: { host } })).value
      expect([code, hint]).toEqual(['FORBIDDEN', expect.stringContaining('--origin')])
      expect((await here.ask('/healthz', { headers: { host } })).status).toBe(200)
    },
  )

  it.each(['127.0.0.1:4400', 'localhost:1', '[::1]:4400', 'reprise.example.com'])('%s is answered', async (host) => {
    expect((await here.ask('/v1', { headers: { host } })).status).toBe(200)
  })

  it('a request of another origin is refused, also on the same machine', async () => {
    for (const origin of ['https://evil.example', 'null', 'http://127.0.0.1:9999', 'http://reprise.example.com']) {
      expect((await here.ask('/v1', { headers: { origin } })).value.code).toBe('FORBIDDEN')
    }
    for (const headers of [
      { origin: 'http://127.0.0.1:4400', host: '127.0.0.1:4400' },
      { origin: 'https://reprise.example.com', host: 'reprise.example.com' },
    ]) {
      expect((await here.ask('/v1', { headers })).status).toBe(200)
    }
    expect((await here.ask('/v1', { headers: { 'sec-fetch-site': 'cross-site' } })).value.code).toBe('FORBIDDEN')
  })
})

describe('a one-time link', () => {
  const codeOf = (link: string) => link.split('#/login/')[1]!
  const redeem = async (link: string, server = here.server) => {
    const response = await server(requestOf('/v1/sessions', { as: null, body: { code: codeOf(link) } }))
    return { status: response.status, value: JSON.parse(await response.text()) }
  }
  const withSession = (session: string) => ({ as: null, headers: { authorization: `Bearer ${session}` } })

  it('begins a session, once, and no request but that one uses it up', async () => {
    const link = here.server.link('operator')
    // A scanner of links fetches the page: the code behind the # reaches no server.
    for (const method of ['HEAD', 'GET'])
      expect((await here.ask(link.split('#')[0]!, { method, as: null })).status).toBe(200)
    const { status, value } = await redeem(link)
    expect(status).toBe(201)
    expect(JSON.stringify(value)).not.toContain(secret('operator'))
    expect((await here.ask('/v1', withSession(value.session))).value.name).toBe('operator')
    expect(await redeem(link)).toMatchObject({ status: 401, value: { code: 'UNAUTHENTICATED' } })
    const forged = value.session.replace(/.$/, (last: string) => (last === 'A' ? 'B' : 'A'))
    expect((await here.ask('/v1', withSession(forged))).status).toBe(401)
    // A code does not work as a session, nor a session as a code.
    expect((await here.ask('/v1', withSession(codeOf(here.server.link('operator'))))).status).toBe(401)
    expect((await redeem(`#/login/${value.session}`)).status).toBe(401)
  })

  it('a browser is given no cookie, which it would send to every program of this machine', async () => {
    const link = here.server.link('owner')
    for (const path of ['/', '/v1']) expect((await here.ask(path, { as: null })).headers.get('set-cookie')).toBeNull()
    const response = await here.server(requestOf('/v1/sessions', { as: null, body: { code: codeOf(link) } }))
    expect([response.status, response.headers.get('set-cookie')]).toEqual([201, null])
  })

  it('works at another server of the same store and tokens, once for both', async () => {
    const other = serve(here.rp, { tokens })
    const link = here.server.link('owner')
    const { status, value } = await redeem(link, other)
    expect(status).toBe(201)
    expect((await redeem(link)).status).toBe(401)
    expect((await here.ask('/v1', withSession(value.session))).value.name).toBe('owner')
    await other.close()
  })

  it('can be requested with a token, as that token; a token begins a session too, a session none', async () => {
    const { status, value } = await here.ask('/v1/links', { method: 'POST', as: 'reader' })
    expect(status).toBe(201)
    const { session } = (await redeem(value.path)).value
    expect((await here.ask('/v1', withSession(session))).value).toMatchObject({ role: 'read' })
    const pasted = await here.ask('/v1/sessions', { body: {}, as: 'reader' })
    expect((await here.ask('/v1', withSession(pasted.value.session))).value.name).toBe('reader')
    expect((await here.ask('/v1/sessions', { body: {}, ...withSession(session) })).status).toBe(401)
    expect((await here.ask('/v1/sessions', { body: {}, as: null })).value.code).toBe('INVALID_ARGUMENT')
  })

  it('ends when the token is replaced', async () => {
    const { session } = (await redeem(here.server.link('owner'))).value
    const renewed = serve(here.rp, { tokens: [{ name: 'owner', token: secret('another'), role: 'write' }] })
    expect((await renewed(requestOf('/v1', withSession(session)))).status).toBe(401)
    await renewed.close()
  })
})

describe('inside another application', () => {
  it('answers below its path, to callers that the application accepts, with the identity it assigns', async () => {
    const mounted = serve(here.rp, {
      basePath: '/reprise',
      origins: ['https://app.example.com'],
      authorize: (request) => {
        return request.headers.get('x-user') === 'ann' ? { name: 'ann', role: 'operate', scopes: ['workflow/'] } : null
      },
    })
    const app = new Hono()
    app.all('/reprise/*', (c) => mounted(c.req.raw))
    const ask = async (path: string, headers: Record<string, string> = { 'x-user': 'ann' }, method = 'GET') => {
      const response = await app.fetch(new Request(`https://app.example.com${path}`, { headers, method }))
      return { status: response.status, value: JSON.parse((await response.text()) || 'null') }
    }
    expect((await ask('/reprise/v1')).value).toMatchObject({ name: 'ann', role: 'operate', scopes: ['workflow/'] })
    expect((await ask('/reprise/v1/runs')).value).toEqual({ runs: [], next: null })
    expect((await ask('/reprise/v1/runs', {})).status).toBe(401)
    expect((await ask('/reprise/healthz', {})).status).toBe(200)
    const missing = await ask(`/reprise${at('workflow/a/b')}`)
    expect([missing.status, missing.value.type]).toEqual([404, '/reprise/v1/errors/NOT_FOUND'])
    expect((await ask('/reprise/v1/openapi.json')).value.servers).toEqual([{ url: '/reprise' }])
    // The application may identify its users by a cookie: then a write must prove its origin.
    const verify = '/reprise/v1/verify'
    expect((await ask(verify, { 'x-user': 'ann' }, 'POST')).value.code).toBe('FORBIDDEN')
    await mounted.close()
  })
})

describe('every answer', () => {
  it.each(['/v1', '/healthz', '/nothing', '/v1/openapi.json'])(
    'of %s has the headers that browsers obey',
    async (path) => {
      const { headers } = await here.ask(path)
      expect(headers.get('content-security-policy')).toBe("default-src 'none'; frame-ancestors 'none'")
      expect(headers.get('x-content-type-options')).toBe('nosniff')
      expect(headers.get('referrer-policy')).toBe('no-referrer')
      expect(headers.get('cache-control')).toBe('no-store')
      expect(headers.get('access-control-allow-origin')).toBeNull()
    },
  )

  it('that is an error is problem+json with a code that the server explains', async () => {
    const { headers, value, status } = await here.ask(at('x/none'))
    expect(headers.get('content-type')).toBe('application/problem+json')
    expect(value).toMatchObject({ status, code: 'NOT_FOUND', remedy: 'fix', type: '/v1/errors/NOT_FOUND' })
    // The code has a general hint, this problem one of its own: a timeline is missing.
    expect((await here.ask(value.type, { as: null })).value.hint).toMatch(/\w/)
    expect(value.hint).toContain('reprise ls')
  })

  it('reveals no internals when something unexpected happens', async () => {
    const broken = serve(here.rp, {
      authorize: () => {
        throw new Error('password=hunter2')
      },
    })
    const response = await broken(requestOf('/v1'))
    const text = await response.text()
    expect(response.status).toBe(500)
    expect(text).toContain('BUG')
    expect(text).not.toContain('hunter2')
    await broken.close()
  })
})

describe('the bounds', () => {
  const body = (bytes: number) => ({ entries: [{ type: 'a', data: { text: 'x'.repeat(bytes) } }] })

  it('on the body hold on both sides, whatever its header claims', async () => {
    const small = await startServer({ limits: { bodyBytes: 1000 } })
    const path = `${at('x/bounds')}/entries`
    const frame = JSON.stringify(body(0)).length
    expect((await small.ask(path, { body: body(1000 - frame) })).status).toBe(200)
    const over = await small.ask(path, { body: body(1001 - frame) })
    expect([over.status, over.value.code]).toEqual([413, 'LIMIT_EXCEEDED'])
    const stream = new ReadableStream({
      pull(controller) {
        controller.enqueue(new Uint8Array(600).fill(32))
      },
    })
    const headers = { authorization: `Bearer ${secret('owner')}`, 'content-type': 'application/json' }
    const endless = new Request(`http://localhost${path}`, {
      method: 'POST',
      headers,
      body: stream,
      duplex: 'half',
    } as RequestInit)
    expect((await small.server(endless)).status).toBe(413)
    await small.close()
  })

  it('on headers, address and query hold', async () => {
    expect((await here.ask('/v1', { headers: { 'x-long': 'x'.repeat(17_000) } })).status).toBe(413)
    expect((await here.ask(`/v1/timelines?prefix=${'x'.repeat(9000)}`)).status).toBe(413)
    expect((await here.ask('/v1/timelines?limit=1000')).status).toBe(200)
    expect((await here.ask('/v1/timelines?limit=1001')).value.detail).toBe('limit must be at most 1000 (got 1001)')
    for (const query of ['limit=0', 'limit=x', 'limit=1&limit=2', 'unknown=1', 'prefix=%00']) {
      expect([query, (await here.ask(`/v1/timelines?${query}`)).status]).toEqual([query, 400])
    }
  })

  it('on requests at once hold, and the place is free again afterwards', async () => {
    const narrow = await startServer({ limits: { concurrency: 2 } })
    const answers = await Promise.all([1, 2, 3].map(() => narrow.ask('/v1/workers')))
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 200, 503])
    const refused = answers.find(({ status }) => status === 503)!
    expect([refused.value.code, refused.headers.get('retry-after')]).toEqual(['OVERLOADED', '1'])
    expect((await narrow.ask('/v1/workers')).status).toBe(200)
    await narrow.close()
  })

  it('on time are reported to the client, and keep the slot until the work is over', async () => {
    const hasty = await startServer({ limits: { requestMs: 1, concurrency: 1 } })
    const slow = hasty.rp.list.bind(hasty.rp)
    const { opened: gate, open: release } = newGate()
    hasty.rp.list = async (query) => {
      await gate
      return await slow(query)
    }
    const late = await hasty.ask('/v1/timelines')
    expect([late.status, late.value.code]).toEqual([504, 'TIMEOUT'])
    expect((await hasty.ask('/v1/timelines')).value.code).toBe('OVERLOADED')
    release()
    await expect.poll(async () => (await hasty.ask('/v1/errors')).status).toBe(200)
    await hasty.close()
  })

  it('on the time of a body name the client as the slow one', async () => {
    const hasty = await startServer({ limits: { requestMs: 50 } })
    const request = new Request(`http://localhost${at('x/slow')}/entries`, {
      method: 'POST',
      headers: { authorization: `Bearer ${secret('owner')}`, 'content-type': 'application/json' },
      body: new ReadableStream({ start: (controller) => controller.enqueue(new TextEncoder().encode('{"entries":')) }),
      duplex: 'half',
    } as RequestInit)
    const response = await hasty.server(request)
    expect([response.status, ((await response.json()) as { code: string }).code]).toEqual([408, 'TIMEOUT'])
    await hasty.close()
  })

  it('on streams leave half of the places to other tokens', async () => {
    const narrow = await startServer({ limits: { streams: 4 } })
    const gone = new AbortController()
    const follow = (as: string) =>
      narrow.server(new Request(requestOf('/v1/feed/stream', { as }), { signal: gone.signal }))
    const own = await Promise.all([1, 2, 3].map(() => follow('reader')))
    expect(own.map(({ status }) => status)).toEqual([200, 200, 503])
    expect((await follow('owner')).status).toBe(200)
    gone.abort()
    await narrow.close()
  })

  it('on methods name those that a path takes', async () => {
    const patch = await here.ask('/v1/runs', { method: 'PATCH' })
    expect([patch.status, patch.headers.get('allow')]).toEqual([405, 'GET, POST'])
    expect((await here.ask('/v1/runs', { method: 'PATCH', as: null })).status).toBe(401)
    expect((await here.ask('/v1/nothing', { method: 'PATCH' })).status).toBe(404)
  })

  it('a required body is demanded, and an unexpected error is reported under the id of its response', async () => {
    expect((await here.ask('/v8/artifacts/events', { method: 'POST' })).value.code).toBe('INVALID_ARGUMENT')
    const problems: { where: string; error: unknown }[] = []
    const off = here.rp.events.on('problem', (problem) => problems.push(problem))
    const list = here.rp.list
    const broken = new TypeError('a fault of our own')
    here.rp.list = () => Promise.reject(broken)
    const { status, value } = await here.ask('/v1/timelines')
    here.rp.list = list
    off()
    expect([status, value.code]).toEqual([500, 'BUG'])
    expect(JSON.stringify(value)).not.toContain('a fault of our own')
    expect(value.instance).toMatch(/^urn:uuid:/)
    expect(problems).toEqual([{ where: `listTimelines (${value.instance})`, error: broken }])
  })

  it('on the content of a body hold: unknown fields, wrong types, other content types', async () => {
    const path = `${at('x/form')}/entries`
    for (const wrong of [
      {},
      { entries: [] },
      { entries: [{}] },
      { entries: [{ type: 'a' }], more: 1 },
      [],
      'x',
      null,
    ]) {
      expect((await here.ask(path, { body: wrong })).value.code).toBe('INVALID_ARGUMENT')
    }
    const plain = await here.ask(path, {
      body: { entries: [{ type: 'a' }] },
      headers: { 'content-type': 'text/plain' },
    })
    expect(plain.value.detail).toMatch(/must be JSON/)
    expect((await here.ask('/v1/timelines/%E0%A4%A/state')).status).toBe(400)
  })
})

describe('the file with the tokens', () => {
  const folder = temporaryFolder('tokens')

  it('is made once, for its owner only, and read afterwards', () => {
    const file = join(folder, 'deep/tokens.json')
    const made = readOrMakeTokens(file)
    expect(made.isNew).toBe(true)
    expect(made.tokens[0]!.token.length).toBeGreaterThan(40)
    expect(statSync(file).mode & 0o777).toBe(0o600)
    expect(readOrMakeTokens(file)).toEqual({ tokens: made.tokens, isNew: false })
  })

  it('that others can read, or with other content, is refused without revealing its content', () => {
    const file = join(folder, 'open.json')
    writeFileSync(file, JSON.stringify({ tokens: [tokens[0]] }))
    chmodSync(file, 0o644)
    expect(() => readOrMakeTokens(file)).toThrow(/can be read by others/)
    writeFileSync(file, 'token=geheim')
    chmodSync(file, 0o600)
    expect(() => readOrMakeTokens(file)).toThrow(/contains no tokens/)
    expect(() => readOrMakeTokens(file)).not.toThrow(/geheim/)
  })
})
