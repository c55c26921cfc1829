// A bucket as a level of a cache: another machine finds a computed result, and every fault of the bucket or its content is a
// miss.

import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { ObjectEntries } from '../../src/engine/storage/open-store.ts'
import { ObjectLevel } from '../../src/engine/tools/cache/object-level.ts'
import { memo, type RemoteLevel } from '../../src/layers/memo/index.ts'
import { S3Client } from '../../src/stores/s3/client.ts'
import { S3Entries } from '../../src/stores/s3/entries.ts'
import { joinUrl, locate } from '../../src/stores/s3/location.ts'
import { bin } from '../cli/support.ts'
import { cleanups, machine, served, squaring } from '../memo/level-support.ts'
import { type FaultyProxy, newBucket, startProxy, startS3 } from './support.ts'

const server = await startS3()
let bucket: string
let proxy: FaultyProxy
let places = 0

beforeAll(async () => {
  if (!server) return
  proxy = await startProxy(server.endpoint)
  bucket = (await newBucket(server.endpoint)).replace(server.endpoint, proxy.endpoint)
})
afterAll(async () => {
  await proxy?.close()
  await server?.close()
})
beforeEach(() => {
  if (proxy) proxy.fault = () => 'pass'
})

const fresh = () => joinUrl(bucket, `cache ${++places}`)
const patient = (url: string): RemoteLevel => ({ url, timeout: '1h' })
const client = async (url: string) => S3Client.open(await locate(url))
const keysIn = async (url: string) => (await (await client(url)).list('')).map(({ key }) => key)

/** The use by a separate machine. */
async function on(remote: RemoteLevel | readonly RemoteLevel[], n: number, more: object = {}) {
  const calls: number[] = []
  const rp = await machine()
  const here = await rp.open(squaring(remote, calls, more))
  const { from, result, provenance } = await here.recall([n])
  await here.close()
  return { from, square: result.square, calls, origin: provenance.origin, codes: rp.codes, problems: rp.problems }
}

async function filled(): Promise<{ url: string; at: string }> {
  const url = fresh()
  expect(await on(patient(url), 3)).toMatchObject({ from: 'computed', codes: [] })
  const [at, ...others] = await keysIn(url)
  expect([at, others]).toEqual([expect.stringMatching(/^memo\/main\/[0-9a-f]{64}$/), []])
  return { url, at: at! }
}

describe.skipIf(server === null)(`a bucket as a level (${server?.kind})`, () => {
  it('a cold machine fills it, another one finds it there', async () => {
    const { url } = await filled()
    const there = await on(patient(url), 3)
    expect(there).toMatchObject({ from: 'remote', square: 9, calls: [], codes: [] })
    // Without its query.
    expect(there.origin).toMatchObject({ cache: url.split('?')[0], scope: 'main' })
    expect(await on(patient(url), 4)).toMatchObject({ from: 'computed', square: 16 })
  })

  it('behind a server: queried in order, and filled on the way', async () => {
    const { url } = await filled()
    const { at, asked } = await served()
    const levels = [at('owner'), patient(url)]
    expect(await on(levels, 3)).toMatchObject({ from: 'remote', origin: { cache: url.split('?')[0] } })
    expect(asked.filter((each) => each.startsWith('PUT'))).toEqual(['PUT square'])
    const before = proxy.requests.length
    expect(await on(levels, 3)).toMatchObject({ from: 'remote', calls: [] })
    expect(proxy.requests.length).toBe(before)
    // Computed results go to both.
    await on(levels, 5)
    expect(await on(at('owner'), 5)).toMatchObject({ from: 'remote' })
    expect(await on(patient(url), 5)).toMatchObject({ from: 'remote' })
  })

  it('B9: an object that was changed, cut off or exchanged is a miss, and the good one takes its place', async () => {
    const { url, at } = await filled()
    const objects = await client(url)
    const sound = (await objects.get(at))!
    await on(patient(url), 4)
    const other = (await keysIn(url)).find((key) => key !== at)!
    const bent = [
      sound.subarray(0, sound.length - 1),
      new Uint8Array(0),
      sound.map((byte, i) => (i === sound.length - 40 ? byte ^ 1 : byte)),
      (await objects.get(other))!,
      new Uint8Array(randomBytes(500)),
    ]
    for (const bytes of bent) {
      await objects.put(at, bytes)
      expect(await on(patient(url), 3)).toMatchObject({ from: 'computed', square: 9, codes: ['MALFORMED'] })
      expect(await on(patient(url), 3)).toMatchObject({ from: 'remote', square: 9, codes: [] })
    }
    proxy.fault = ({ method }) => (method === 'GET' ? 'torn' : 'pass')
    expect(await on(patient(url), 3)).toMatchObject({ from: 'computed', square: 9, codes: ['STORE_UNREACHABLE'] })
  })

  it('B9: a scope is a folder: main reads nothing of a pull request, which reads both', async () => {
    const { url } = await filled()
    const pull = { scope: 'pull-7' }
    expect(await on(patient(url), 3, pull)).toMatchObject({ from: 'remote', origin: { scope: 'main' } })
    expect(await on(patient(url), 4, pull)).toMatchObject({ from: 'computed' })
    expect(await on(patient(url), 4, pull)).toMatchObject({ from: 'remote', origin: { scope: 'pull-7' } })
    expect((await keysIn(url)).filter((key) => key.startsWith('memo/pull-7/'))).toHaveLength(1)
    expect(await on(patient(url), 4)).toMatchObject({ from: 'computed', codes: [] })
  })

  it('refused keys are reported once and not used again; read-only ones read', async () => {
    const { url } = await filled()
    proxy.fault = () => 403
    const before = proxy.requests.length
    const calls: number[] = []
    const rp = await machine()
    const here = await rp.open(squaring(patient(url), calls))
    for (const n of [3, 4, 5]) await here.call(n)
    await here.close()
    expect([calls, rp.codes]).toEqual([[3, 4, 5], ['STORE_DENIED']])
    // A slow read may be sent twice.
    expect(new Set(proxy.requests.slice(before)).size).toBe(1)
    expect(rp.problems[0]).toContain('s3:ListBucket')

    proxy.fault = ({ method }) => (method === 'PUT' ? 403 : 'pass')
    const reader = await machine()
    const there = await reader.open(squaring(patient(url)))
    const found = []
    for (const n of [4, 5, 3]) found.push((await there.recall([n])).from)
    await there.close()
    expect([found, reader.codes]).toEqual([['computed', 'computed', 'remote'], ['STORE_DENIED']])
  })

  it('a missing bucket is reported as such', async () => {
    const gone = patient(bucket.replace('s3://', 's3://not-'))
    const before = proxy.requests.length
    expect(await on(gone, 3)).toMatchObject({ from: 'computed', square: 9, codes: ['NOT_FOUND'] })
    // Nothing is sent to it.
    expect(new Set(proxy.requests.slice(before).map((each) => each.split(' ')[0]))).toEqual(new Set(['GET']))
  })

  it('one that never answers costs one wait', async () => {
    const { url } = await filled()
    proxy.fault = () => 'hang'
    const rp = await machine()
    const here = await rp.open(squaring({ url, timeout: '300ms' }))
    expect((await here.recall([3])).from).toBe('computed')
    const before = proxy.requests.length
    for (const n of [4, 5]) expect((await here.recall([n])).from).toBe('computed')
    await here.close()
    expect([rp.codes, proxy.requests.length]).toEqual([['TIMEOUT'], before])
  })

  it('an abandoned request is no longer waited for, so that nothing keeps a process alive', async () => {
    const entries = await S3Entries.open(fresh(), { timeoutMs: 1e9 })
    proxy.fault = () => 'hang'
    const ending = new AbortController()
    const asked = [entries.get('a', ending.signal), entries.put('a', textStream('x'), false, ending.signal)]
    await expect.poll(() => proxy.hanging).toBeGreaterThanOrEqual(2)
    ending.abort(new Error('enough'))
    for (const each of asked) await expect(each).rejects.toThrow('enough')
    await expect.poll(() => proxy.hanging).toBe(0)
  })

  it('one that fails is tried for a moment, then left alone', async () => {
    const { url } = await filled()
    proxy.fault = ({ number }) => (number % 2 ? 503 : 'refuse')
    const rp = await machine()
    const here = await rp.open(squaring(patient(url)))
    for (const n of [3, 4]) expect((await here.recall([n])).from).toBe('computed')
    const reads = () => proxy.requests.filter((each) => each.startsWith('GET')).length
    const before = reads()
    expect((await here.recall([5])).from).toBe('computed')
    await here.close()
    expect([rp.codes.length, reads()]).toEqual([1, before])
  })

  it('a large result goes in parts, and is not there before they are joined', async () => {
    const url = fresh()
    const piece = randomBytes(1 << 20)
    const remote = patient(url)
    const large = memo('large', {
      ...{ version: 1, remote },
      async *run(): AsyncGenerator<Uint8Array> {
        for (let i = 0; i < 17; i++) yield Buffer.concat([Buffer.from(String(i).padStart(4)), piece])
      },
    })
    const sent = async () => {
      const rp = await machine()
      const here = await rp.open(large)
      const { from, result } = await here.recall([])
      let size = 0
      for await (const part of result) size += part.length
      await here.close()
      return { from, size, codes: rp.codes }
    }
    const size = 17 * (4 + (1 << 20))
    // The last part is lost: no object exists, and no paid-for remains are left.
    proxy.fault = ({ method, path }) => (method === 'PUT' && path.includes('partNumber=3') ? 403 : 'pass')
    expect(await sent()).toEqual({ from: 'computed', size, codes: ['STORE_DENIED'] })
    expect(await keysIn(url)).toEqual([])
    const uploads = await (await client(url)).send({ method: 'GET', key: '', query: { uploads: '' }, what: 'look' })
    expect(new TextDecoder().decode(uploads.bytes)).not.toContain('<UploadId>')
    proxy.fault = () => 'pass'
    expect(await sent()).toEqual({ from: 'computed', size, codes: [] })
    expect(await sent()).toEqual({ from: 'remote', size, codes: [] })
  })

  it('a conditional write keeps an existing object, and a store without conditions accepts it all the same', async () => {
    const url = fresh()
    const entries = await S3Entries.open(url)
    const { signal } = new AbortController()
    const body = async function* (text: string): AsyncGenerator<Uint8Array> {
      yield Buffer.from(text)
    }
    const read = async () => await textOf((await entries.get('a', signal))!)
    await entries.put('a', body('one'), true, signal)
    await entries.put('a', body('two'), true, signal)
    expect(await read()).toBe('one')
    await entries.put('a', body('three'), false, signal)
    expect(await read()).toBe('three')
    let isFirst = true
    proxy.fault = ({ method }) => {
      if (method !== 'PUT' || !isFirst) return 'pass'
      isFirst = false
      return 501
    }
    await entries.put('a', body('four'), true, signal)
    expect(await read()).toBe('four')
  })

  it('the command line takes an address of a bucket', async () => {
    const url = fresh()
    const run = async () => {
      const folder = mkdtempSync(join(tmpdir(), 'reprise-machine-'))
      cleanups.push(() => rmSync(folder, { recursive: true, force: true }))
      mkdirSync(join(folder, 'src'))
      writeFileSync(join(folder, 'src/a'), 'a')
      const args = ['cache', 'run', '--name', 'copy', '--input', 'src/**', '--output', 'dist/**', '--remote', url]
      const line = 'mkdir -p dist && cp src/a dist/a && echo ran'
      // Not spawnSync: the proxy is in this process.
      const child = spawn(process.execPath, [bin, ...args, '--remote-timeout', '10m', '--', line], { cwd: folder })
      let said = ''
      for (const stream of [child.stdout, child.stderr]) {
        stream.on('data', (piece) => {
          said += piece
        })
      }
      const code = await new Promise((resolve) => void child.once('close', resolve))
      return { code, said, built: readFileSync(join(folder, 'dist/a'), 'utf8') }
    }
    expect(await run()).toMatchObject({ code: 0, built: 'a' })
    const second = await run()
    expect(second).toMatchObject({ code: 0, built: 'a' })
    expect(second.said).toContain(`in ${url.split('?')[0]}`)
  })
})

describe('an address of a bucket', () => {
  it.each([
    ['keys in it', 's3://key:secret@bucket/a'],
    ['no bucket', 's3:///a'],
    ['a token', { url: 's3://bucket/a', token: 'x' }],
  ])('is refused with %s', async (_, remote) => {
    await expect((async () => (await machine()).open(squaring(remote)))()).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
    })
  })

  it('is reported, and affects no caller, where it turns out wrong later', async () => {
    const wrong = await on('s3://bucket/a?colour=red', 3)
    expect(wrong).toMatchObject({ from: 'computed', codes: ['INVALID_ARGUMENT'], calls: [3] })
  })
})

describe('objects in a bucket', () => {
  type Step = { readonly who: number; readonly what: 'get' | 'put' | 'bend' }
  const { signal } = new AbortController()

  /** Two that share a bucket. */
  it('are replaced by a writer that saw them, and kept by one that saw none', async () => {
    const step = fc.record({ who: fc.nat(1), what: fc.constantFrom('get', 'put', 'bend') }) as fc.Arbitrary<Step>
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 12 }), async (steps) => {
        const kept = new Map<string, string>()
        const entries: ObjectEntries = {
          get: async (key) => (kept.has(key) ? textStream(kept.get(key)!) : null),
          async put(key, body, onlyNew) {
            const text = await textOf(body)
            if (!onlyNew || !kept.has(key)) kept.set(key, text)
          },
        }
        const options = {
          url: 's3://bucket',
          scope: 'main',
          mainScope: 'main',
          space: 'memo',
          open: async () => entries,
        }
        const levels = [new ObjectLevel(options), new ObjectLevel(options)]
        const saw: (string | null | undefined)[] = [undefined, undefined]
        let there: string | null = null
        for (const [i, { who, what }] of steps.entries()) {
          if (what === 'bend' && there !== null) {
            there = 'bent'
            for (const key of kept.keys()) kept.set(key, there)
          }
          if (what === 'get') {
            const entry = await levels[who]!.get('key', signal)
            saw[who] = entry && (await textOf(entry.body))
            expect(saw[who]).toBe(there)
          }
          if (what === 'put') {
            await levels[who]!.put('key', textStream(`${i}`), signal)
            if (saw[who] !== null || there === null) there = `${i}`
            // Its requests count once.
            saw[who] = undefined
          }
          expect([...kept.values()]).toEqual(there === null ? [] : [there])
        }
      }),
      { numRuns: 100 },
    )
  })
})

async function* textStream(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text)
}

async function textOf(body: AsyncIterable<Uint8Array>): Promise<string> {
  const pieces: Uint8Array[] = []
  for await (const piece of body) pieces.push(piece)
  return Buffer.concat(pieces).toString()
}
