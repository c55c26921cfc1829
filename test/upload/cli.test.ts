// `reprise upload` and `reprise download` as processes: killed with SIGKILL in the middle and started again, they resume; and
// the commands of every timeline, on uploads.

import { spawn } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { bin, root } from '../cli/support.ts'
import { cli } from '../cli/warm.ts'
import { type Cleanups, placeOn, startServe, tokenIn } from '../server/serving.ts'
import { until } from '../support/fixture.ts'

const cleanups: Cleanups = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

const sha256 = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex')

async function served() {
  const place = await placeOn('sqlite', cleanups)
  const code = `import { upload } from '${root}dist/layers/upload/index.js'\nexport const files = upload('files', { maxBytes: 50e6 })\n`
  writeFileSync(join(place.folder, 'files.mjs'), code)
  const running = await startServe(place, cleanups, ['--module', 'files.mjs'])
  const at = { cwd: place.folder, env: { REPRISE_TOKEN: tokenIn(place.folder), REPRISE_URL: place.url } }
  const json = async (...args: string[]) => {
    const { stdout, stderr, code: status } = await cli([...args, '--json'], at)
    expect([status, stderr.includes('[')]).toEqual([0, false])
    return JSON.parse(stdout)
  }
  return { place, running, at, json, endpoint: `http://127.0.0.1:${place.port}/v1/uploads/files` }
}

/** Starts a command, and kills it as soon as something is so. */
async function killWhen(
  args: readonly string[],
  at: { cwd: string; env: Record<string, string> },
  holds: () => boolean | Promise<boolean>,
) {
  const child = spawn(process.execPath, [bin, ...args], {
    cwd: at.cwd,
    env: { ...process.env, ...at.env },
    stdio: 'ignore',
  })
  const over = new Promise((resolve) => child.once('close', resolve))
  await until(holds, over)
  child.kill('SIGKILL')
  await over
}

test('an upload and a download that are killed go on where they stopped', async () => {
  const { place, at, json, endpoint } = await served()
  const bytes = randomBytes(40_000_000)
  writeFileSync(join(place.folder, 'a.bin'), bytes)
  const note = join(place.folder, 'a.bin.reprise-upload')
  const offset = async () => {
    if (!existsSync(note)) return 0
    const { url } = JSON.parse(readFileSync(note, 'utf8'))
    // A read that interrupts no upload.
    const id = `upload%2Ffiles%2F${url.slice(url.lastIndexOf('/') + 1)}`
    const shown = await fetch(`http://127.0.0.1:${place.port}/v1/timelines/${id}`, {
      headers: { authorization: `Bearer ${at.env.REPRISE_TOKEN}` },
    })
    return ((await shown.json()) as { attributes?: { offset?: number } }).attributes?.offset ?? 0
  }
  await killWhen(['upload', 'a.bin', endpoint], at, async () => (await offset()) > 0)
  const sent = await json('upload', 'a.bin', endpoint, '--metadata', 'kind=test')
  expect(sent.bytes).toBe(bytes.length)
  expect(sent.resumedFrom).toBeGreaterThan(0)
  expect(existsSync(note)).toBe(false)

  const part = join(place.folder, 'b.bin.part')
  await killWhen(
    ['download', sent.url, 'b.bin'],
    at,
    () => (statSync(part, { throwIfNoEntry: false })?.size ?? 0) > 3_000_000,
  )
  // Something wrote into the part meanwhile: it is not gone on with.
  const damaged = readFileSync(part)
  damaged[1000]! ^= 1
  writeFileSync(join(place.folder, 'c.bin.part'), damaged)
  writeFileSync(join(place.folder, 'c.bin.part.json'), readFileSync(`${part}.json`))
  expect((await json('download', sent.url, 'c.bin')).resumedFrom).toBe(0)
  expect(sha256(readFileSync(join(place.folder, 'c.bin')))).toBe(sha256(bytes))

  const got = await json('download', sent.url, 'b.bin')
  expect(got.resumedFrom).toBeGreaterThan(0)
  expect(sha256(readFileSync(join(place.folder, 'b.bin')))).toBe(sha256(bytes))
  expect([existsSync(part), existsSync(`${part}.json`)]).toEqual([false, false])
  expect((await cli(['download', sent.url, 'b.bin'], at)).code).toBe(6)
}, 120_000)

test('a download restarts if the server has other bytes by now, and a refusal is reported', async () => {
  const { place, at, json, endpoint } = await served()
  writeFileSync(join(place.folder, 'old.part'), 'not of this file')
  let isFirst = true
  const server = createServer((_, response) => {
    response.writeHead(200, { etag: isFirst ? '"one"' : '"two"', 'content-length': '6' })
    if (isFirst) response.write('abc', () => response.destroy())
    else response.end('second')
    isFirst = false
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  cleanups.push(() => new Promise((resolve) => server.close(resolve)))
  await json('download', `http://127.0.0.1:${(server.address() as AddressInfo).port}/x`, 'old')
  expect(readFileSync(join(place.folder, 'old'), 'utf8')).toBe('second')

  writeFileSync(join(place.folder, 'large.bin'), Buffer.alloc(51_000_000))
  const large = await cli(['upload', 'large.bin', endpoint], at)
  expect([large.code, large.stderr.includes('LIMIT_EXCEEDED')]).toEqual([1, true])
  const unknown = await cli(['upload', 'large.bin', endpoint], { ...at, env: { ...at.env, REPRISE_TOKEN: 'no' } })
  expect(unknown.stderr).toContain('UNAUTHENTICATED')
  expect((await cli(['upload', 'nothing.bin', endpoint], at)).code).toBe(4)
  expect((await cli(['upload', 'large.bin', 'ftp://x'], at)).code).toBe(2)
}, 60_000)

test("a download assembled from several answers must have the server's digest", async () => {
  const place = await placeOn('sqlite', cleanups)
  const whole = randomBytes(300_000)
  const told = { digest: createHash('sha256').update(whole).digest('base64'), wanted: [] as unknown[], isCut: true }
  let sent = whole
  const server = createServer(({ headers }, response) => {
    const from = Number(/^bytes=(\d+)-/.exec(headers.range ?? '')?.[1] ?? 0)
    told.wanted.push(headers['want-repr-digest'])
    response.writeHead(from > 0 ? 206 : 200, {
      etag: '"one"',
      'content-length': String(sent.length - from),
      ...(from > 0 && { 'content-range': `bytes ${from}-${sent.length - 1}/${sent.length}` }),
      ...(headers['want-repr-digest'] && { 'repr-digest': `sha-256=:${told.digest}:` }),
    })
    if (!told.isCut) return response.end(sent.subarray(from))
    told.isCut = false
    return response.write(sent.subarray(0, 100_000), () => response.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  cleanups.push(() => new Promise((resolve) => server.close(resolve)))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/x`
  const at = { cwd: place.folder, env: {} }
  expect((await cli(['download', url, 'sound'], at)).code).toBe(0)
  expect(sha256(readFileSync(join(place.folder, 'sound')))).toBe(sha256(whole))
  expect(told.wanted.at(-1)).toBe('sha-256=10')
  // From here on it sends other bytes than announced, under the same tag.
  sent = Buffer.from(whole.map((byte) => byte ^ 1))
  told.isCut = true
  const refused = await cli(['download', url, 'other'], at)
  expect([refused.code === 0, refused.stderr.includes('CHECKSUM_MISMATCH')]).toEqual([false, true])
  expect(existsSync(join(place.folder, 'other'))).toBe(false)
}, 60_000)

test('commands for every timeline work on uploads', async () => {
  const { place, at, json, endpoint } = await served()
  const bytes = randomBytes(700_000)
  writeFileSync(join(place.folder, 'a.bin'), bytes)
  const { url } = await json('upload', 'a.bin', endpoint)
  const id = `upload/files/${url.slice(url.lastIndexOf('/') + 1)}`
  expect((await json('ls', 'upload/')).map((head: { status: string }) => head.status)).toEqual(['completed'])
  const shown = await json('show', id)
  expect([shown.kind, shown.summary.offset, shown.summary.metadata]).toEqual(['upload', 700_000, { filename: 'a.bin' }])
  expect((await cli(['log', id], at)).stdout).toContain('filled')
  expect((await json('verify')).ok).toBe(true)
  expect((await json('drill', id)).ok).toBe(true)
  expect((await cli(['doctor'], at)).code).toBe(0)
  expect((await json('card', id)).coordinate.timeline).toBe(id)
  const copy = `upload/files/${'c'.repeat(40)}`
  const { parent } = await json('fork', `${id}@${shown.seq}`, copy)
  expect(parent).toBe(id)
  expect((await cli(['rollback', `${id}@1`, '--yes'], at)).code).toBe(2)
  await json('export', id, 'one.reprise')
  const headers = { authorization: `Bearer ${at.env.REPRISE_TOKEN}` }
  const gone = await fetch(url, { method: 'DELETE', headers: { ...headers, 'tus-resumable': '1.0.0' } })
  expect(gone.status).toBe(204)
  await json('prune')
  await json('prune')
  const read = async (address: string) => Buffer.from(await (await fetch(address, { headers })).arrayBuffer())
  // The copy keeps the content of the original, independent of its fate.
  expect((await read(`${endpoint}/${'c'.repeat(40)}`)).equals(bytes)).toBe(true)
  await json('delete', id, '--yes')
  await json('delete', copy, '--yes')
  const { chunks } = await json('prune')
  expect(chunks.live).toBe(0)
  const imported = await json('import', 'one.reprise')
  expect(imported.timeline).toBe(id)
  expect((await read(url)).equals(bytes)).toBe(true)
}, 120_000)
