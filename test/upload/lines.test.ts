// `reprise upload` and `reprise download` on lines and files that fail them: a server that never answers, one that is killed, a
// file that is cut while it is sent, and two commands for one file.

import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { identifyPid, identifyProcess } from '../../src/engine/base/platform.ts'
import { bin } from '../cli/support.ts'
import { newGate } from '../support/fixture.ts'

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

const mb = 1_000_000

async function serving(handle: (request: IncomingMessage, response: ServerResponse) => unknown) {
  const server = createServer((request, response) => void handle(request, response))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  cleanups.push(() => {
    server.closeAllConnections()
    return new Promise((resolve) => server.close(resolve))
  })
  const folder = mkdtempSync(join(tmpdir(), 'reprise-lines-'))
  cleanups.push(() => rmSync(folder, { recursive: true, force: true }))
  return { folder, address: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
}

/** A tus server in memory. `meddle` sees each request first: true means that it answered the request. */
async function tus(meddle: (request: IncomingMessage, response: ServerResponse, at: number) => unknown) {
  let received = Buffer.alloc(0)
  const tusHeaders = { 'tus-resumable': '1.0.0' }
  const place = await serving(async (request, response) => {
    if (await meddle(request, response, received.length)) return
    const stands = () => ({ ...tusHeaders, 'upload-offset': String(received.length) })
    if (request.method === 'POST') response.writeHead(201, { ...tusHeaders, location: '/u/1' }).end()
    else if (request.method === 'HEAD') response.writeHead(200, stands()).end()
    else {
      try {
        for await (const piece of request) received = Buffer.concat([received, piece as Buffer])
        response.writeHead(204, stands()).end()
      } catch {
        // The client left; the received bytes are kept.
      }
    }
  })
  return { ...place, bytes: () => received }
}

function start(folder: string, ...args: string[]) {
  const child = spawn(process.execPath, [bin, ...args], { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] })
  cleanups.push(() => child.kill('SIGKILL'))
  let said = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (said += text))
  const over = new Promise<{ code: number | null; said: string }>((resolve) => {
    child.once('close', (code) => resolve({ code, said }))
  })
  return { over, term: () => child.kill('SIGTERM') }
}

test('a request without an answer is given up, and the upload continues', async () => {
  const dead = new Set(['POST', 'HEAD', 'PATCH'])
  const { folder, address, bytes } = await tus(({ method }) => dead.delete(method!))
  const content = randomBytes(2 * mb)
  writeFileSync(join(folder, 'a.bin'), content)
  const { code, said } = await start(folder, 'upload', 'a.bin', address, '--stall', '1s').over
  expect([code, said.match(/the connection stalled for 1s/g)?.length]).toEqual([0, 3])
  expect(bytes().equals(content)).toBe(true)
}, 60_000)

test.each(['POST', 'HEAD', 'PATCH'])(
  'SIGTERM ends an upload that waits for the answer to a %s',
  async (method) => {
    const { opened: isAsked, open: asked } = newGate()
    const { folder, address } = await tus((request) => {
      if (request.method === method) asked()
      return request.method === method
    })
    writeFileSync(join(folder, 'a.bin'), randomBytes(5 * mb))
    const { over, term } = start(folder, 'upload', 'a.bin', address)
    await isAsked
    term()
    const { code, said } = await over
    expect([code, said.includes('AbortError')]).toEqual([130, false])
  },
  60_000,
)

test('a file that is cut while it is sent is a conflict, and the next upload of it begins anew', async () => {
  let isCut = false
  const { folder, address } = await tus(async (request) => {
    if (request.method !== 'PATCH' || isCut) return false
    isCut = true
    // The bytes in flight may be more than the rest of the file.
    await new Promise((resolve) => request.once('readable', resolve))
    truncateSync(join(folder, 'a.bin'), mb)
    return false
  })
  writeFileSync(join(folder, 'a.bin'), randomBytes(40 * mb))
  const { code, said } = await start(folder, 'upload', 'a.bin', address).over
  expect([code, said.includes('CONFLICT')]).toEqual([6, true])
  expect(existsSync(join(folder, 'a.bin.reprise-upload'))).toBe(false)
}, 60_000)

test('a stalled download continues with another request', async () => {
  const content = randomBytes(3 * mb)
  let requests = 0
  const { folder, address } = await serving((request, response) => {
    requests += 1
    const from = Number(/^bytes=(\d+)-$/.exec(request.headers.range ?? '')?.[1] ?? 0)
    const range = { 'content-range': `bytes ${from}-${content.length - 1}/${content.length}` }
    const length = { 'content-length': content.length - from, etag: '"one"' }
    response.writeHead(from > 0 ? 206 : 200, from > 0 ? { ...length, ...range } : length)
    if (requests === 1) response.write(content.subarray(0, 2 * mb))
    else response.end(content.subarray(from))
  })
  const { code } = await start(folder, 'download', address, 'a.bin', '--stall', '1s').over
  expect([code, requests]).toEqual([0, 2])
  expect(readFileSync(join(folder, 'a.bin')).equals(content)).toBe(true)
}, 60_000)

test('of two downloads into one file the second is refused, and a lock of a dead process is taken over', async () => {
  const content = randomBytes(3 * mb)
  const { opened: isGoing, open: go } = newGate()
  const { opened: isAsked, open: asked } = newGate()
  const { folder, address } = await serving(async (_, response) => {
    response.writeHead(200, { 'content-length': content.length, etag: '"one"' })
    response.write(content.subarray(0, mb))
    asked()
    await isGoing
    response.end(content.subarray(mb))
  })
  const lock = join(folder, 'a.bin.part.lock')
  const dead = spawn(process.execPath, ['-e', ''])
  const identity = identifyPid(dead.pid!)
  await new Promise((resolve) => dead.once('close', resolve))
  writeFileSync(lock, JSON.stringify({ host: identifyProcess().host, process: identity, lock: 'x' }))
  const first = start(folder, 'download', address, 'a.bin')
  await isAsked
  const second = await start(folder, 'download', address, 'a.bin').over
  expect(second.said).toContain('OWNED')
  go()
  expect((await first.over).code).toBe(0)
  expect(readFileSync(join(folder, 'a.bin')).equals(content)).toBe(true)
  expect(readdirSync(folder)).toEqual(['a.bin'])
}, 60_000)
