// Wake-up requests: a commit invokes the function that does the work, even if some requests fail, and a simultaneous tick of a
// scheduler starts no work twice.

import { readFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { open, type Reprise } from 'reprise'
import { lambdaHandler, pushWakes, routeHandler } from 'reprise/serverless'
import { type WorkflowContext, workflow } from 'reprise/workflow'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { order } from '../../examples/serverless/orders.ts'
import { newGate, temporaryFolder, until } from '../support/fixture.ts'
import { type StoreUrl, storeUrls } from '../support/store-urls.ts'
import { application } from '../within/database.ts'
import { Invocation } from './invocation.ts'

const secret = 'a secret for tests only'
const greet = workflow(
  'greet',
  async (ctx: WorkflowContext, name: string) => await ctx.step('say', () => `hello ${name}`),
)

describe.each(Object.keys(storeUrls))('E2: wake-up requests (%s)', (kind) => {
  let store: StoreUrl
  let servers: Server[] = []
  let opened: Reprise[] = []
  beforeEach(() => {
    store = storeUrls[kind]!()
  })
  afterEach(async () => {
    for (const rp of opened) await rp.close()
    for (const server of servers) await new Promise((resolve) => server.close(resolve))
    servers = []
    opened = []
    await store.remove()
  })
  const engine = async () => {
    const rp = await open(store.url, { housekeeping: false })
    opened.push(rp)
    return rp
  }
  /** The function that works, as a server. */
  const serve = async (answer: (request: Request) => Promise<Response>): Promise<string> => {
    const server = createServer(async (incoming, outgoing) => {
      const chunks: Buffer[] = []
      for await (const chunk of incoming) chunks.push(chunk as Buffer)
      const headers = Object.entries(incoming.headers).map(([name, value]) => [name, String(value)] as [string, string])
      const body = Buffer.concat(chunks).toString()
      const request = new Request('http://here/api/work', { method: 'POST', headers, body })
      // As a platform does it: an invocation that failed is answered, and its sender repeats the request.
      const response = await answer(request).catch(() => new Response(null, { status: 500 }))
      outgoing.writeHead(response.status).end(await response.text())
    })
    servers.push(server)
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}/api/work`
  }

  it('start the function after a commit, without a poll', async () => {
    const worker = await engine()
    const url = await serve(routeHandler({ open: async () => worker, work: [greet], idle: 50, secret }))
    const client = await engine()
    const wakes = pushWakes(client, { url, secret })
    await wakes.settled()
    const run = await client.run(greet, 'ann', { here: false })
    await wakes.settled()
    expect((await client.list({ prefix: 'workflow/greet/' })).map(({ status }) => status)).toEqual(['completed'])
    expect(await run.result()).toBe('hello ann')
  })

  it('are sent by push() after a transaction of the application', async () => {
    const worker = await engine()
    const url = await serve(routeHandler({ open: async () => worker, work: [greet], idle: 50, secret }))
    const client = await engine()
    const wakes = pushWakes(client, { url, secret })
    await wakes.settled()
    const app = await application(store.url)
    await app.start('greet', 'ann', 'ann')
    await app.close()
    wakes.push()
    await wakes.settled()
    expect((await client.list({ prefix: 'workflow/greet/' })).map(({ status }) => status)).toEqual(['completed'])
  })

  it('are repeated until they are answered', async () => {
    const worker = await engine()
    const route = routeHandler({ open: async () => worker, work: [greet], idle: 50, secret })
    let requests = 0
    const url = await serve(async (request) => {
      requests += 1
      return requests < 3 ? new Response('not now', { status: 503 }) : await route(request)
    })
    const client = await engine()
    const codes: unknown[] = []
    client.events.on('problem', ({ error }) => codes.push((error as { code?: unknown }).code))
    const run = await client.run(greet, 'bob', { here: false })
    pushWakes(client, { url, secret })
    expect(await run.result()).toBe('hello bob')
    expect(codes).toEqual(['WAKE_UNANSWERED', 'WAKE_UNANSWERED'])
  })

  it('are sent at the start, for the commits of a process that died before its request', async () => {
    const dead = await engine()
    await dead.run(greet, 'cat', { id: 'cat', here: false })
    const worker = await engine()
    const url = await serve(routeHandler({ open: async () => worker, work: [greet], idle: 50, secret }))
    const client = await engine()
    await pushWakes(client, { url, secret }).settled()
    expect((await client.list({ prefix: 'workflow/greet/cat' })).map(({ status }) => status)).toEqual(['completed'])
  })

  it('are answered at once where the platform keeps the function alive', async () => {
    const worker = await engine()
    const kept: Promise<unknown>[] = []
    const waitUntil = (work: Promise<unknown>) => void kept.push(work)
    const url = await serve(routeHandler({ open: async () => worker, work: [greet], idle: 50, secret, waitUntil }))
    const client = await engine()
    await pushWakes(client, { url, secret }).settled()
    expect(kept).toHaveLength(1)
    await Promise.all(kept)
  })

  it('are sent by an invocation whose time was over before its work, and by no other', async () => {
    const gate = newGate()
    const slow = workflow('slow', async (ctx: WorkflowContext) => await ctx.step('wait', () => gate.opened))
    let requests = 0
    const url = await serve(async () => {
      requests += 1
      return new Response(null, { status: 200 })
    })
    const client = await engine()
    const worker = await engine()
    const handler = lambdaHandler({ open: async () => worker, work: [slow], idle: 100, next: { url, secret } })
    const run = await client.run(slow, { here: false })
    const cut = await handler({}, { getRemainingTimeInMillis: () => 8000 })
    expect(cut.handedOver.map(({ inFlight }) => inFlight)).toEqual([['step wait']])
    expect(requests).toBe(1)
    gate.open()
    expect((await handler({}, { getRemainingTimeInMillis: () => 60_000 })).handedOver).toEqual([])
    await run.result()
    expect(requests).toBe(1)
  })

  it('and ticks together start nothing twice', async () => {
    const ledger = join(temporaryFolder('wakes'), 'ledger')
    const started: Promise<unknown>[] = []
    const url = await serve(async () => {
      started.push(new Invocation('route', { url: store.url, ledger, ms: 0 }).ended)
      await started.at(-1)
      return new Response(null, { status: 200 })
    })
    const client = await engine()
    const wakes = pushWakes(client, { url, secret })
    for (let n = 0; n < 12; n++) {
      await client.run(order, `item-${n}`, { id: `order-${n}`, here: false })
      if (n % 6 === 0) started.push(new Invocation('tick', { url: store.url, ledger, ms: 0 }).ended)
    }
    await wakes.settled()
    const completed = async () => (await client.list({ prefix: 'workflow/order/', status: 'completed' })).length
    await until(async () => (await completed()) === 12)
    await Promise.all(started)
    const intents = readFileSync(ledger, 'utf8').match(/\S+ \S+$/gm)!
    const wanted = Array.from({ length: 12 }, (_, n) => [`charge item-${n}`, `ship item-${n}`]).flat()
    expect(intents.sort()).toEqual(wanted.sort())
  })
})

it('needs a url and a secret', async () => {
  await using rp = await open('memory:')
  for (const target of [
    { url: 'nowhere', secret },
    { url: 'ftp://127.0.0.1/', secret },
    { url: 'http://127.0.0.1/', secret: 'short' },
    { url: 'http://127.0.0.1/', secret, retries: 3 },
    null,
  ]) {
    expect(() => pushWakes(rp, target as never)).toThrow(expect.objectContaining({ code: 'INVALID_ARGUMENT' }))
  }
})
