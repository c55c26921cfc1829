// Two servers on one store behind a proxy that sends each request to the other one: remote jobs, their tasks and leases do not
// depend on the server that received the last request, and a server is killed in the middle of them.

import { type ChildProcess, spawn } from 'node:child_process'
import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterEach, expect, it } from 'vitest'
import { root } from '../cli/support.ts'
import { freePort } from '../support/parts.ts'
import { type Cleanups, Client, placeOn, startServe, tokenIn } from './serving.ts'

const cleanups: Cleanups = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

interface Proxy {
  readonly port: number
  /** Requests that each server answered. */
  readonly answered: number[]
}

/** Round robin; a server that refuses the connection is skipped for that request, as nginx does it. */
async function startProxy(ports: readonly number[]): Promise<Proxy> {
  let next = 0
  const answered = ports.map(() => 0)
  const server = createServer(async (asked, reply) => {
    const chunks: Buffer[] = []
    for await (const chunk of asked) chunks.push(chunk as Buffer)
    const body = Buffer.concat(chunks)
    const attempt = (left: number) => {
      const at = next++ % ports.length
      let isSent = false
      const { method, url, headers } = asked
      const upstream = request({ host: '127.0.0.1', port: ports[at]!, method, path: url, headers }, (response) => {
        isSent = true
        answered[at]! += 1
        reply.writeHead(response.statusCode!, response.headers)
        response.pipe(reply)
        response.on('error', () => reply.destroy())
      })
      upstream.on('error', (error: NodeJS.ErrnoException) => {
        if (!isSent && error.code === 'ECONNREFUSED' && left > 0) attempt(left - 1)
        else reply.destroy()
      })
      upstream.end(body)
    }
    attempt(ports.length - 1)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  cleanups.push(() => {
    server.closeAllConnections()
    server.close()
  })
  return { port: (server.address() as AddressInfo).port, answered }
}

/** Prints each task that it begins, and each whose result was acknowledged. */
function startWorker(port: number, token: string): { readonly begun: string[]; readonly settled: string[] } {
  const env = { ...process.env, REPRISE_SERVER: `http://127.0.0.1:${port}`, REPRISE_TOKEN: token }
  const args = [join(root, 'test/programs/remote-worker.mjs'), 'orders']
  const child: ChildProcess = spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'inherit'] })
  const closed = new Promise<void>((resolve) => child.once('close', () => resolve()))
  const [begun, settled]: [string[], string[]] = [[], []]
  let text = ''
  child.stdout!.on('data', (piece: Buffer) => {
    text += piece
    const lines = text.split('\n')
    text = lines.pop()!
    for (const line of lines) (line.startsWith('+') ? settled : begun).push(line.slice(1))
  })
  cleanups.push(async () => {
    child.kill('SIGKILL')
    await closed
  })
  return { begun, settled }
}

const total = 120

it.each(['sqlite', 'postgres'])(
  '%s: a remote job and a lease continue behind a proxy while a server is killed and started',
  async (kind) => {
    const place = await placeOn(kind, cleanups)
    const places = [place, { ...place, port: await freePort() }]
    const servers = [await startServe(places[0]!, cleanups), await startServe(places[1]!, cleanups)]
    const token = tokenIn(place.folder)
    const proxy = await startProxy(places.map(({ port }) => port))
    const client = new Client(proxy.port, token)
    const orders = '/v1/timelines/shop%2Forders'
    const { epoch } = await client.insist(`${orders}/lease`, { holder: 'shop', ttlMs: 600_000 })
    const append = async (from: number, to: number) => {
      for (let n = from; n < to; n += 10) {
        const entries = Array.from({ length: 10 }, (_, i) => ({ type: 'order', data: { n: n + i } }))
        await client.insist(`${orders}/entries`, { entries, epoch }, `orders-${n}`)
      }
    }
    await append(0, total / 2)
    const job = await client.insist('/v1/remote/orders/job', { from: ['shop/orders'], concurrency: 8 })
    expect(job).toEqual({ job: 'job/orders', isNew: true })
    const workers = [startWorker(proxy.port, token), startWorker(proxy.port, token)]
    const settled = () => new Set(workers.flatMap((worker) => worker.settled))
    await expect.poll(() => settled().size, { timeout: 60_000 }).toBeGreaterThan(20)
    // The server that runs the job: its worker's row names the process.
    const { owner } = await client.insist('/v1/timelines/job%2Forders')
    const { workers: rows } = (await client.insist('/v1/workers')) as { workers: { id: string; process: string }[] }
    const numbers = rows.find(({ id }) => id === owner)!.process.split(/\D+/)
    const victim = servers.findIndex(({ child }) => numbers.includes(String(child.pid)))
    expect(victim).toBeGreaterThanOrEqual(0)
    await servers[victim]!.kill()
    // No client posts the job again, and the other server continues the lease under its token.
    await append(total / 2, total)
    await expect.poll(() => settled().size, { timeout: 60_000 }).toBeGreaterThan(total / 2)
    await startServe(places[victim]!, cleanups)
    await expect.poll(() => settled().size, { timeout: 90_000 }).toBe(total)
    const begun = workers.flatMap((worker) => worker.begun)
    expect([begun.length, new Set(begun).size]).toEqual([total, total])
    const shown = async () => (await client.insist('/v1/timelines/job%2Forders')).summary
    await expect.poll(shown, { timeout: 30_000 }).toMatchObject({ finished: total, deadLetters: 0 })
    expect(proxy.answered.every((count) => count > 10)).toBe(true)
    await expect.poll(async () => (await client.insist('/v1/remote')).queues).toEqual([])
  },
  240_000,
)

it('a remote job that a person stopped is not continued by a restart, and one that is requested again is', async () => {
  const place = await placeOn('sqlite', cleanups)
  let server = await startServe(place, cleanups)
  const client = new Client(place.port, tokenIn(place.folder))
  const body = { from: ['shop/orders'], concurrency: 4 }
  const request = () => client.insist('/v1/remote/orders/job', body)
  await client.append('shop/orders', 'a')
  expect((await request()).isNew).toBe(true)
  const claim = (waitMs: number) => client.insist('/v1/remote/orders/claim', { max: 10, waitMs })
  const [first] = (await claim(20_000)).tasks
  await client.insist('/v1/remote/orders/results', { results: [{ task: first.task, result: 1 }] })
  await client.insist('/v1/timelines/job%2Forders/stop', { reason: 'enough' }, 'stop')
  const shown = async () => (await client.insist('/v1/timelines/job%2Forders')).attributes
  await expect.poll(shown, { timeout: 20_000 }).not.toHaveProperty('remote')
  await client.append('shop/orders', 'b')
  await server.kill()
  server = await startServe(place, cleanups)
  expect((await claim(4000)).tasks).toEqual([])
  expect((await request()).isNew).toBe(true)
  // SIGTERM: the server closes the job, and the next one continues it by itself, including tasks that a worker holds.
  const [task] = (await claim(20_000)).tasks
  server.child.kill('SIGTERM')
  await new Promise((resolve) => server.child.once('close', resolve))
  await startServe(place, cleanups)
  const results = { results: [{ task: task.task, result: 1 }] }
  expect((await client.insist('/v1/remote/orders/results', results)).settled).toEqual([task.task])
  await client.append('shop/orders', 'c')
  expect((await claim(20_000)).tasks.map(({ input }: { input: { seq: number } }) => input.seq)).toEqual([3])
}, 120_000)
