// The real clients of build caches against a real `reprise serve`: a cold build fills, a clean clone hits, damaged data is a
// miss, a wrong token is refused and the build continues, and a server killed in the middle of uploads leaves no partial
// artifact. Clients missing on this machine are skipped, with the reason printed.

import { createHash } from 'node:crypto'
import { cpSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { hostOf } from '../../src/engine/host/host.ts'
import { open } from '../../src/index.ts'
import {
  absent,
  clearHome,
  clients,
  cloneFor,
  home,
  owner,
  root,
  secret,
  source,
  turbo,
  wrong,
} from './build-clients.ts'
import { type Cleanups, type Place, placeOn, type Running, startServe } from './serving.ts'

const cleanups: Cleanups = []
const last: Cleanups = [clearHome]
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})
afterAll(async () => {
  for (const cleanup of last.splice(0).reverse()) await cleanup()
})

for (const { name, missing } of clients) if (missing !== null) console.warn(`${name} is left out: ${missing}`)

let server: Place
let running: Running
beforeAll(async () => {
  server = await placeOn('sqlite', last)
  const tokens = [
    { name: 'ci', token: secret, role: 'write', cache: { scope: 'main' } },
    { name: 'owner', token: owner, role: 'read' },
  ]
  writeFileSync(join(server.folder, 'tokens.json'), JSON.stringify({ tokens }), { mode: 0o600 })
  running = await startServe(server, last)
})

/** Opens the same store beside the server. */
async function inStore<T>(look: (rp: Awaited<ReturnType<typeof open>>) => Promise<T>): Promise<T> {
  const rp = await open(server.url, { housekeeping: false })
  try {
    return await look(rp)
  } finally {
    await rp.close()
  }
}

const artifactsOf = (space: string) =>
  inStore(async (rp) => (await rp.list({ prefix: `artifact/main/${space}/` })).map(({ timeline }) => timeline))

/** A byte of every chunk is another one. */
const spoilAll = () =>
  inStore(async (rp) => {
    const { blobs } = hostOf(rp).kernel.store
    for (const { digest } of await blobs.list(null, 10_000)) {
      const [chunk] = await blobs.get([digest])
      if (!chunk) continue
      await blobs.delete([digest], Number.MAX_SAFE_INTEGER)
      const spoiled = Buffer.from(chunk)
      spoiled[spoiled.length >> 1]! ^= 1
      await blobs.put([{ digest, bytes: spoiled }])
    }
  })

describe.each(clients.filter(({ missing }) => missing === null))('$name', (client) => {
  const clone = () => cloneFor(client)

  it('fills, hits in a clean clone, misses damaged entries, and continues without a server that accepts it', {
    timeout: 300_000,
  }, async () => {
    const refused = await client.build(clone(), server.port, wrong)
    expect([refused.code === 0, client.isHit(refused.said)], refused.said).toEqual([!client.stops, false])
    expect(await artifactsOf(client.space)).toEqual([])
    const cold = clone()
    const first = await client.build(cold, server.port, secret)
    expect([first.code, client.isHit(first.said)], first.said).toEqual([0, false])
    expect((await artifactsOf(client.space)).length).toBeGreaterThan(0)
    const built = readFileSync(join(cold, client.output))
    const clean = clone()
    const second = await client.build(clean, server.port, secret)
    expect([second.code, client.isHit(second.said)], second.said).toEqual([0, true])
    expect(readFileSync(join(clean, client.output)).equals(built)).toBe(true)
    await spoilAll()
    const after = clone()
    const third = await client.build(after, server.port, secret)
    expect([third.code, client.isHit(third.said)], third.said).toEqual([0, false])
    expect(readFileSync(join(after, client.output)).equals(built)).toBe(true)
    const told = await fetch(`http://127.0.0.1:${server.port}/metrics`, {
      headers: { authorization: `Bearer ${owner}` },
    })
    expect(await told.text()).not.toMatch(/status="5/)
  })
})

it.runIf(absent('turbo') === null)(
  'turbo: an artifact that another key signed is a miss',
  { timeout: 300_000 },
  async () => {
    const [one, other, third] = [0, 1, 2].map(() => {
      const folder = mkdtempSync(join(home, 'signed-'))
      cpSync(join(root, 'examples/turborepo'), folder, { recursive: true })
      writeFileSync(join(folder, 'packages/words/words.txt'), 'other words\n')
      return folder
    })
    expect((await turbo(one!, server.port, secret, 'key-one'.padEnd(40, '1'))).said).not.toContain('FULL TURBO')
    expect((await turbo(other!, server.port, secret, 'key-two'.padEnd(40, '2'))).said).not.toContain('FULL TURBO')
    // The signature of the second one is accepted by its own key.
    expect((await turbo(third!, server.port, secret, 'key-two'.padEnd(40, '2'))).said).toContain('FULL TURBO')
  },
)

const digestOf = (body: Buffer) => createHash('sha256').update(body).digest('hex')

it('a server that is killed in the middle of uploads leaves nothing half, and they can be sent again', {
  timeout: 300_000,
}, async () => {
  const whole = Buffer.alloc(4_600_000, source)
  const paths = [
    '/v8/artifacts/1234567812345678',
    '/v1/cache/77',
    `/cache/b/ac/${'0'.repeat(64)}`,
    `/cache/b/cas/${digestOf(whole)}`,
    '/cache/cc/ab/cd',
  ]
  const before = await inStore(async (rp) => (await rp.list({ prefix: 'artifact/' })).length)
  const headers = { authorization: `Bearer ${secret}`, 'content-type': 'application/octet-stream' }
  const sending = paths.map((path) => {
    const sent = request({
      port: server.port,
      path,
      method: 'PUT',
      headers: { ...headers, 'content-length': whole.length },
    })
    sent.once('error', () => undefined)
    return new Promise<void>((resolve) => sent.write(whole.subarray(0, 4_400_000), () => resolve()))
  })
  await Promise.all(sending)
  await running.kill()
  running = await startServe(server, last)
  const ask = (path: string, init: RequestInit = {}) =>
    fetch(`http://127.0.0.1:${server.port}${path}`, { headers, ...init })
  for (const path of paths) expect([path, (await ask(path)).status]).toEqual([path, 404])
  expect(await inStore(async (rp) => (await rp.list({ prefix: 'artifact/' })).length)).toBe(before)
  for (const path of paths) {
    expect([path, (await ask(path, { method: 'PUT', body: whole })).ok]).toEqual([path, true])
    expect(digestOf(Buffer.from(await (await ask(path)).arrayBuffer()))).toBe(digestOf(whole))
  }
})
