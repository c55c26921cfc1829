// A server that is killed while a real build tool uploads to it: nothing partial is in the store, and the next build fills it;
// all but nx continue without it. With turbo; REPRISE_CLIENTS=all uses every installed build tool.

import { readFileSync, writeFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { open } from '../../src/index.ts'
import { newGate } from '../support/fixture.ts'
import { clearHome, clients, cloneFor, secret } from './build-clients.ts'
import { type Cleanups, type Place, placeOn, type Running, startServe } from './serving.ts'

const last: Cleanups = [clearHome]
afterAll(async () => {
  for (const cleanup of last.splice(0).reverse()) await cleanup()
})

let server: Place
let running: Running
beforeAll(async () => {
  server = await placeOn('sqlite', last)
  const tokens = [{ name: 'ci', token: secret, role: 'write', cache: { scope: 'main' } }]
  writeFileSync(join(server.folder, 'tokens.json'), JSON.stringify({ tokens }), { mode: 0o600 })
  running = await startServe(server, last)
})

/** Forwards the client's requests, but only the first half of its first put; then the server is killed. */
async function cutting(): Promise<{ readonly port: number; readonly cut: Promise<void>; close(): void }> {
  const { opened: cut, open: done } = newGate()
  const sockets = new Set<Socket>()
  let isCut = false
  const proxy = createServer((from) => {
    const to = connect(server.port, '127.0.0.1')
    for (const socket of [from, to]) {
      sockets.add(socket)
      socket.on('error', () => undefined)
      socket.on('close', () => [from, to].map((each) => each.destroy()))
    }
    to.pipe(from)
    let isPutting = false
    from.on('data', (piece) => {
      const head = piece.indexOf('PUT ') === 0 ? piece.indexOf('\r\n\r\n') + 4 : 0
      isPutting ||= head > 0
      if (!isPutting) return void to.write(piece)
      if (isCut) return
      const body = piece.length - head
      to.write(piece.subarray(0, head + (body >> 1)))
      if (body === 0) return
      isCut = true
      // It has begun to take it in.
      setTimeout(() => void running.kill().then(done), 100)
    })
  })
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
  const close = () => {
    proxy.close()
    for (const socket of sockets) socket.destroy()
  }
  return { port: (proxy.address() as AddressInfo).port, cut, close }
}

const isTaken = ({ name, missing }: (typeof clients)[number]) =>
  missing === null && (name === 'turbo' || process.env.REPRISE_CLIENTS === 'all')

describe.each(clients.filter(isTaken))('$name', (client) => {
  it('the server is killed during an upload: nothing partial exists, and the next build fills it', {
    timeout: 300_000,
  }, async () => {
    const { port, cut, close } = await cutting()
    const first = cloneFor(client)
    const [built] = await Promise.all([client.build(first, port, secret), cut])
    close()
    expect(built.code === 0, built.said).toBe(client.stops !== 'gone')
    const output = readFileSync(join(first, client.output))
    const rp = await open(server.url, { housekeeping: false })
    const found = await rp.list({ prefix: `artifact/main/${client.space}/` })
    expect([(await rp.verify()).ok, found]).toEqual([true, []])
    await rp.close()
    running = await startServe(server, last)
    for (const isHit of [false, true]) {
      const folder = cloneFor(client)
      const { code, said } = await client.build(folder, server.port, secret)
      expect([code, client.isHit(said)], said).toEqual([0, isHit])
      expect(readFileSync(join(folder, client.output)).equals(output)).toBe(true)
    }
  })
})
