// The examples that mount the API in other applications, called over real sockets: reading, writing, bodies, errors and a
// stream that ends when its client is gone.

import { spawnSync } from 'node:child_process'
import { createServer, type Server as HttpServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { getRequestListener } from '@hono/node-server'
import { afterEach, describe, expect, it } from 'vitest'
import { open, type Reprise } from '../../src/index.ts'
import { root } from '../cli/support.ts'

const cleanups: (() => Promise<unknown> | unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

type Listener = Parameters<typeof createServer>[1]

/** The example itself, as a program has it. */
async function example(name: string): Promise<Record<string, unknown>> {
  return await import(/* @vite-ignore */ pathToFileURL(join(root, `examples/mount/${name}.mjs`)).href)
}

async function listenOn(listener: Listener): Promise<string> {
  const server: HttpServer = createServer(listener)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  cleanups.push(async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

const starts: Record<string, (rp: Reprise) => Promise<string>> = {
  async hono(rp) {
    const { mount } = (await example('hono')) as { mount: (rp: Reprise) => Mounted<{ fetch: typeof fetch }> }
    const { app, close } = mount(rp)
    cleanups.push(close)
    return await listenOn(getRequestListener(app.fetch as never))
  },
  async express(rp) {
    const { mount } = (await example('express')) as { mount: (rp: Reprise) => Mounted<Listener> }
    const { app, close } = mount(rp)
    cleanups.push(close)
    return await listenOn(app)
  },
  async fastify(rp) {
    const { mount } = (await example('fastify')) as { mount: (rp: Reprise) => Mounted<FastifyLike> }
    const { app, close } = mount(rp)
    cleanups.push(close, () => app.close())
    return await app.listen({ port: 0, host: '127.0.0.1' })
  },
}

interface Mounted<App> {
  readonly app: App
  close(): Promise<void>
}

interface FastifyLike {
  listen(options: object): Promise<string>
  close(): Promise<void>
}

const user = { 'x-user': 'ann', 'sec-fetch-site': 'same-origin' }
const json = { ...user, 'content-type': 'application/json' }

async function tryOut(base: string): Promise<void> {
  const path = `${base}/reprise/v1/timelines/notes%2Fone`
  const body = JSON.stringify({ entries: [{ type: 'a', data: { text: 'x'.repeat(100_000) } }] })
  const made = await fetch(`${path}/entries`, { method: 'POST', headers: json, body })
  expect([made.status, await made.json()]).toEqual([200, { first: 1, seq: 1, isDuplicate: false }])
  const put = await fetch(`${path}/checkpoint?seq=1`, {
    method: 'PUT',
    headers: { ...user, 'content-type': 'application/octet-stream' },
    body: Buffer.from([1, 2, 3]),
  })
  expect(put.status).toBe(200)
  const got = await fetch(`${path}/checkpoint`, { headers: user })
  expect([...new Uint8Array(await got.arrayBuffer())]).toEqual([1, 2, 3])
  expect((await fetch(path)).status).toBe(401)
  const missing = await fetch(`${base}/reprise/v1/timelines/notes%2Fnone`, { headers: user })
  expect([missing.status, missing.headers.get('content-type')]).toEqual([404, 'application/problem+json'])
  const leaving = new AbortController()
  const stream = await fetch(`${base}/reprise/v1/feed/stream?from=start`, { headers: user, signal: leaving.signal })
  const reader = stream.body!.getReader()
  let seen = ''
  while (!seen.includes('event: entries')) seen += new TextDecoder().decode((await reader.read()).value)
  leaving.abort()
}

describe.each(Object.keys(starts))('inside %s', (name) => {
  it('the API answers under its path, and the application beside it', async () => {
    const rp = await open('memory:')
    cleanups.push(() => rp.close())
    const base = await starts[name]!(rp)
    await tryOut(base)
    expect(await (await fetch(base)).text()).toBe('the application')
  })
})

it('inside Next.js the handlers of a route take a Request and give a Response', async () => {
  process.env.REPRISE_URL = 'memory:'
  const route = (await example('next')) as Record<string, (request: Request) => Promise<Response>>
  expect(Object.keys(route).sort()).toEqual(['DELETE', 'GET', 'POST', 'PUT', 'dynamic'])
  const at = 'http://localhost:3000/reprise/v1/timelines/notes%2Fone'
  const body = JSON.stringify({ entries: [{ type: 'a' }] })
  const made = await route.POST!(new Request(`${at}/entries`, { method: 'POST', headers: json, body }))
  expect(made.status).toBe(200)
  expect((await route.GET!(new Request(at, { headers: user }))).status).toBe(200)
})

it('reprise/server needs no package beside Reprise', () => {
  const hook = `export const resolve = (name, context, next) => {
    if (name.includes('hono')) throw Object.assign(new Error(name), { code: 'ERR_MODULE_NOT_FOUND' })
    return next(name, context)
  }`
  const data = (code: string) => `data:text/javascript,${encodeURIComponent(code)}`
  const register = `import { register } from 'node:module'; register(${JSON.stringify(data(hook))})`
  const url = (entry: string) => pathToFileURL(join(root, 'dist', entry)).href
  const program = `
    import { open } from '${url('index.js')}'
    import { serve } from '${url('server/index.js')}'
    const rp = await open('memory:')
    const handler = serve(rp, { tokens: [{ name: 'me', token: 'x'.repeat(40), role: 'read' }] })
    const headers = { authorization: 'Bearer ' + 'x'.repeat(40) }
    console.log((await handler(new Request('http://localhost/v1/timelines', { headers }))).status)
    await rp.close()
  `
  const args = [
    '--import',
    `data:text/javascript,${encodeURIComponent(register)}`,
    '--input-type=module',
    '-e',
    program,
  ]
  const { stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' })
  expect([stdout.trim(), stderr]).toEqual(['200', ''])
})
