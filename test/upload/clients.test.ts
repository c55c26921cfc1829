// Real clients of the tus protocol against `reprise serve`: connections that a proxy of ours cuts at random bytes, servers that
// are killed with SIGKILL while bytes arrive, many uploads at once, and one that is large. At the end every byte is stored.
//
//   REPRISE_UPLOAD_BYTES=5368709120 npx vitest run test/upload/clients.test.ts -t large

import { execFile } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { promisify } from 'node:util'
import { Upload, type UploadOptions } from 'tus-js-client'
import { afterEach, describe, expect, test } from 'vitest'
import { timelineId } from '../../src/core/coordinate.ts'
import { hostOf } from '../../src/engine/host/host.ts'
import { open } from '../../src/index.ts'
import { loadUpload } from '../../src/layers/upload/stored-upload.ts'
import { root } from '../cli/support.ts'
import { type Cleanups, type Place, placeOn, type Running, startServe, tokenIn } from '../server/serving.ts'
import { cuttingProxy } from '../support/cutting-proxy.ts'
import { until } from '../support/fixture.ts'
import { tuspyFolder } from '../support/parts.ts'
import { seeded } from '../support/seeded.ts'

const cleanups: Cleanups = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

const module = `
import { createHash } from 'node:crypto'
import { upload } from '${root}dist/layers/upload/index.js'
import { workflow } from '${root}dist/layers/workflow/index.js'
export const keep = workflow('keep', async (ctx, { sha256 }) => sha256)
export const files = upload('files', {
  maxBytes: 10e9,
  starts: [keep],
  async onComplete(file, ctx) {
    const hash = createHash('sha256')
    for await (const piece of file.read()) hash.update(piece)
    const sha256 = hash.digest('hex')
    ctx.start(keep, { sha256 })
    return { sha256 }
  },
})
`

class Served {
  readonly place: Place
  #running: Running | null = null

  constructor(place: Place) {
    this.place = place
    writeFileSync(join(place.folder, 'files.mjs'), module)
  }

  async start(): Promise<void> {
    this.#running = await startServe(this.place, cleanups, ['--module', 'files.mjs', '--work'])
  }

  async restart(): Promise<void> {
    await this.#running!.kill()
    await this.start()
  }

  get pid(): number {
    return this.#running!.child.pid!
  }

  get headers() {
    return { authorization: `Bearer ${tokenIn(this.place.folder)}` }
  }

  endpoint(port = this.place.port): string {
    return `http://127.0.0.1:${port}/v1/uploads/files`
  }
}

async function served(kind: string): Promise<Served> {
  const one = new Served(await placeOn(kind, cleanups))
  await one.start()
  return one
}

/** Resolves to the path of the upload. */
function send(bytes: Buffer | Readable, options: UploadOptions): Promise<string> {
  return new Promise((resolve, reject) => {
    const one = new Upload(bytes, {
      retryDelays: [...Array(60)].map((_, i) => Math.min(20 + i * 20, 500)),
      onError: reject,
      onSuccess: () => resolve(new URL(one.url!).pathname),
      ...options,
    })
    one.start()
  })
}

async function stored(url: string, path: string) {
  const rp = await open(url)
  try {
    const id = path.slice(path.lastIndexOf('/') + 1)
    const { kernel } = hostOf(rp)
    let found = await loadUpload(kernel, timelineId(`upload/files/${id}`))
    await until(async () => {
      found = await loadUpload(kernel, timelineId(`upload/files/${id}`))
      return found?.state.status === 'completed'
    })
    const entries = (await rp.list({ prefix: `workflow/keep/${id}` })).length
    return { state: found!.state, runs: entries }
  } finally {
    await rp.close()
  }
}

const sha256 = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex')

describe.each(['sqlite', 'postgres'])('uploads of tus-js-client (%s)', (kind) => {
  test('C5: arrive whole over connections that are cut and past servers that are killed', async () => {
    const chance = seeded(kind.length)
    const server = await served(kind)
    const proxy = await cuttingProxy(server.place.port, () => Math.floor(chance() * 3_000_000))
    cleanups.push(() => proxy.close())
    const bytes = randomBytes(12_000_000)
    let kills = 0
    let sent = 0
    const path = send(bytes, {
      endpoint: server.endpoint(proxy.port),
      headers: server.headers,
      metadata: { filename: 'a.bin' },
      ...(kind === 'postgres' && { chunkSize: 5_000_000 }),
      onProgress: (at) => {
        sent = at
      },
    })
    while (kills < 3) {
      const from = sent
      await until(() => sent > from + 500_000 || sent === bytes.length, path)
      kills += 1
      await server.restart()
    }
    proxy.calm()
    const at = await path
    expect(proxy.cuts).toBeGreaterThan(0)
    const got = await fetch(`http://127.0.0.1:${server.place.port}${at}`, { headers: server.headers })
    expect(sha256(Buffer.from(await got.arrayBuffer()))).toBe(sha256(bytes))
    const { state, runs } = await stored(server.place.url, at)
    expect(state.result).toEqual({ sha256: sha256(bytes) })
    // A server may be killed in onComplete.
    expect([state.attempts >= 1, runs]).toEqual([true, 1])
  }, 120_000)

  test('are sent in parallel parts, and with a length that is set at the end', async () => {
    const server = await served(kind)
    const bytes = randomBytes(900_000)
    const common = { endpoint: server.endpoint(), headers: server.headers }
    const parallel = await send(bytes, { ...common, parallelUploads: 3 })
    const late = await send(Readable.from([bytes]), { ...common, uploadLengthDeferred: true, chunkSize: 250_000 })
    const early = await send(bytes, { ...common, uploadDataDuringCreation: true })
    for (const path of [parallel, late, early]) {
      const got = await fetch(`http://127.0.0.1:${server.place.port}${path}`, { headers: server.headers })
      expect(sha256(Buffer.from(await got.arrayBuffer()))).toBe(sha256(bytes))
    }
  }, 60_000)
})

test('200 uploads at once arrive whole', async () => {
  const server = await served('sqlite')
  const all = Array.from({ length: 200 }, () => randomBytes(20_000 + Math.floor(Math.random() * 30_000)))
  const common = { endpoint: server.endpoint(), headers: server.headers, chunkSize: 20_000 }
  const paths = await Promise.all(all.map((bytes) => send(bytes, common)))
  for (const [i, path] of paths.entries()) {
    const got = await fetch(`http://127.0.0.1:${server.place.port}${path}`, { headers: server.headers })
    expect(Buffer.from(await got.arrayBuffer()).equals(all[i]!)).toBe(true)
  }
}, 120_000)

const tuspy = tuspyFolder()

const script = `
import sys
from tusclient import client
file, endpoint, token = sys.argv[1:4]
tus = client.TusClient(endpoint, headers={'authorization': 'Bearer ' + token})
up = tus.uploader(file, chunk_size=700000, retries=100, retry_delay=0.05, upload_checksum=True, metadata={'filename': 'a.bin'})
up.upload()
print(up.url)
`

test.skipIf(tuspy === null)(
  'an upload of tuspy, with checksums, arrives whole over connections that are cut',
  async () => {
    const server = await served('sqlite')
    const chance = seeded(5)
    const bytes = randomBytes(6_000_000)
    writeFileSync(join(server.place.folder, 'a.bin'), bytes)
    const proxy = await cuttingProxy(server.place.port, () => (chance() < 0.5 ? null : Math.floor(chance() * 900_000)))
    cleanups.push(() => proxy.close())
    const { stdout } = await promisify(execFile)(
      'python3',
      ['-c', script, 'a.bin', server.endpoint(proxy.port), server.headers.authorization.slice('Bearer '.length)],
      { cwd: server.place.folder, env: { ...process.env, PYTHONPATH: tuspy! } },
    )
    proxy.calm()
    const path = new URL(stdout.trim()).pathname
    const got = await fetch(`http://127.0.0.1:${server.place.port}${path}`, { headers: server.headers })
    expect(sha256(Buffer.from(await got.arrayBuffer()))).toBe(sha256(bytes))
  },
  120_000,
)

test('a large upload takes no more memory than a small one', async () => {
  const size = Number(process.env.REPRISE_UPLOAD_BYTES ?? 96_000_000)
  const server = await served('sqlite')
  const chance = seeded(9)
  const piece = Buffer.alloc(1024 * 1024, 0).map(() => chance() * 256)
  const hash = createHash('sha256')
  async function* pieces() {
    for (let at = 0, number = 0; at < size; at += piece.length, number++) {
      // No two pieces are equal, so deduplication saves nothing.
      const bytes = Buffer.from(piece.subarray(0, Math.min(piece.length, size - at)))
      for (let i = 0; i < bytes.length - 4; i += 4096) bytes.writeUInt32LE(number + i, i)
      hash.update(bytes)
      yield bytes
    }
  }
  const rss = (field: string) =>
    Number(new RegExp(`${field}:\\s+(\\d+)`).exec(readFileSync(`/proc/${server.pid}/status`, 'utf8'))?.[1] ?? 0) / 1024
  const before = rss('VmRSS')
  const startedAt = Date.now()
  const path = await send(Readable.from(pieces()), {
    endpoint: server.endpoint(),
    headers: server.headers,
    uploadSize: size,
    chunkSize: 64 * 1024 * 1024,
  })
  const tookMs = Date.now() - startedAt
  const { state } = await stored(server.place.url, path)
  expect(state.result).toEqual({ sha256: hash.digest('hex') })
  const peak = rss('VmHWM')
  console.log(
    `${size} bytes: ${Math.round(before)} MB before, ${Math.round(peak)} MB at most, ${Math.round(size / tookMs / 1000)} MB/s`,
  )
  expect(peak - before).toBeLessThan(300)
}, 3_600_000)
