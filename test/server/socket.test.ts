// Bodies and responses over our own socket: bodies that are too long or incomplete, responses without a body, and the feed,
// which is read once for all clients at the same position.

import { request } from 'node:http'
import { connect } from 'node:net'
import { afterEach, expect, it } from 'vitest'
import { hostOf } from '../../src/engine/host/host.ts'
import { defaultServerLimits } from '../../src/server/limits.ts'
import { type Listening, listen } from '../../src/server/listen.ts'
import { at, secret, startServer, type TestServer } from './support.ts'

let here: TestServer
let listening: Listening
const start = async () => {
  here = await startServer({ limits: { bodyBytes: 1000 } })
  listening = await listen(here.server, { port: 0, limits: defaultServerLimits })
}
afterEach(async () => {
  await listening.close()
  await here.close()
})

const headers = { authorization: `Bearer ${secret('owner')}`, 'content-type': 'application/json' }

function send(method: string, path: string, pieces: readonly string[] = []) {
  return new Promise<{ status: number; headers: Record<string, unknown>; text: string }>((resolve, reject) => {
    const sent = request(`${listening.url}${path}`, { method, headers, agent: false }, (response) => {
      let text = ''
      response.on('data', (piece: Buffer) => {
        text += piece
      })
      response.on('end', () => resolve({ status: response.statusCode!, headers: response.headers, text }))
    })
    sent.on('error', reject)
    for (const piece of pieces) sent.write(piece)
    sent.end()
  })
}

it('takes a body in pieces, up to the bound, and refuses one that grows beyond it', async () => {
  await start()
  const entry = '{"entries":[{"type":"a","data":{"x":"'
  expect((await send('POST', `${at('x/y')}/entries`, [entry, 'y'.repeat(500), '"}}]}'])).status).toBe(200)
  const { status, text } = await send('POST', `${at('x/y')}/entries`, [
    entry,
    'y'.repeat(800),
    'y'.repeat(800),
    '"}}]}',
  ])
  expect([status, JSON.parse(text).code]).toEqual([413, 'LIMIT_EXCEEDED'])
  expect(JSON.parse((await send('GET', at('x/y'))).text).seq).toBe(1)
})

it.each([
  ['append', 'POST', `${at('x/y')}/entries`],
  ['cachePut', 'PUT', '/cache/cc/key'],
  ['nxPut', 'PUT', '/v1/cache/there'],
  ['turboPut', 'PUT', '/v8/artifacts/key'],
])(
  'lets go of a client of %s that leaves before its body is whole, and counts it as that',
  async (id, method, path) => {
    await start()
    // Nx's client gets the conflict after its body was read.
    expect((await send('PUT', '/v1/cache/there', ['{}'])).status).toBe(200)
    const { port } = new URL(listening.url)
    const socket = connect(Number(port), '127.0.0.1')
    socket.on('error', () => undefined)
    const head = `${method} ${path} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nAuthorization: ${headers.authorization}\r\n`
    socket.write(`${head}Content-Type: application/json\r\nContent-Length: 900\r\n\r\n{"entries"`)
    socket.end()
    const left = new RegExp(`reprise_http_requests_total\\{route="${id}",status="499"\\} 1`)
    await expect.poll(async () => (await send('GET', '/metrics')).text).toMatch(left)
    for (const nowhere of [at('x/y'), '/cache/cc/key', '/v8/artifacts/key']) {
      expect([nowhere, (await send('GET', nowhere)).status]).toEqual([nowhere, 404])
    }
  },
)

it.each([
  ['431', 'LIMIT_EXCEEDED', `GET /v1 HTTP/1.1\r\nHost: localhost\r\nX-Large: ${'x'.repeat(100_000)}\r\n\r\n`],
  ['431', 'LIMIT_EXCEEDED', `GET /${'x'.repeat(100_000)} HTTP/1.1\r\nHost: localhost\r\n\r\n`],
  ['400', 'INVALID_ARGUMENT', 'this is no HTTP\r\n\r\n'],
])('answers %s %s to what never becomes a request', async (status, code, bytes) => {
  await start()
  const socket = connect(Number(new URL(listening.url).port), '127.0.0.1')
  const failed: unknown[] = []
  let text = ''
  socket.on('error', (error) => failed.push(error))
  socket.on('data', (piece) => {
    text += piece
  })
  socket.write(bytes)
  await new Promise((resolve) => socket.once('close', resolve))
  expect(failed).toEqual([])
  expect(text).toMatch(new RegExp(`^HTTP/1.1 ${status} `))
  expect(text).toMatch(/content-security-policy: default-src 'none'/)
  expect(JSON.parse(text.split('\r\n\r\n')[1]!)).toMatchObject({ status: Number(status), code })
})

it('answers HEAD with the head alone, and opens no stream for it', async () => {
  await start()
  const { status, text, headers: told } = await send('HEAD', '/v1')
  expect([status, text, told['content-type']]).toEqual([200, '', 'application/json'])
  expect((await send('HEAD', '/v1/feed/stream')).status).toBe(200)
  await expect.poll(async () => (await send('GET', '/metrics')).text).toMatch(/^reprise_http_streams 0$/m)
})

it('reads the feed once for all that follow it', async () => {
  await start()
  const { kernel } = hostOf(here.rp)
  const { feed } = kernel.store
  let reads = 0
  kernel.store.feed = async (...args: Parameters<typeof feed>) => {
    const page = await feed(...args)
    // Looks that find nothing come by the clock, however many clients there are.
    if (page.items.length > 0) reads += 1
    return page
  }
  const clients = 40
  const got: string[] = Array.from({ length: clients }, () => '')
  const sockets = got.map((_, n) => {
    const sent = request(`${listening.url}/v1/feed/stream`, { headers, agent: false }, (response) => {
      response.on('data', (piece: Buffer) => {
        got[n] = `${got[n]}${piece}`
      })
      response.on('error', () => undefined)
    })
    sent.on('error', () => undefined)
    sent.end()
    return sent
  })
  const seen = (times: number) => got.filter((text) => text.split('event: entries').length === times + 1).length
  await expect.poll(() => got.filter((text) => text.includes('retry:')).length).toBe(clients)
  const append = () => here.ask(`${at('x/y')}/entries`, { body: { entries: [{ type: 'a' }] } })
  await append()
  await expect.poll(() => seen(1)).toBe(clients)
  const before = reads
  await append()
  await expect.poll(() => seen(2)).toBe(clients)
  expect(reads - before).toBe(1)
  for (const socket of sockets) socket.destroy()
})
