// Chunks in a real S3-compatible server: the contract of every place for chunks, faults of the network by a proxy of ours,
// and a store whose checkpoints lie there.

import { createHash } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Store } from '../../src/core/store/ports.ts'
import { openMemory } from '../../src/stores/memory/index.ts'
import { S3Blobs } from '../../src/stores/s3/blobs.ts'
import { S3Client } from '../../src/stores/s3/client.ts'
import { joinUrl, locate } from '../../src/stores/s3/location.ts'
import { probeConditions } from '../../src/stores/s3/objects.ts'
import { openS3Place, placeIn } from '../../src/stores/s3/place.ts'
import { blobTests } from '../../src/testing/conformance/blobs.ts'
import { Kit } from '../../src/testing/conformance/kit.ts'
import { type FaultyProxy, newBucket, type S3Server, startProxy, startS3 } from './support.ts'

const hash = (bytes: Uint8Array) => new Uint8Array(createHash('sha256').update(bytes).digest())
const chunk = (text: string, size = 100) => {
  const bytes = new Uint8Array(Buffer.from(text.padEnd(size, '.')))
  return { digest: hash(bytes), bytes }
}

const server: S3Server | null = await startS3()
let bucket: string
let proxy: FaultyProxy
let places = 0

beforeAll(async () => {
  if (!server) return
  bucket = await newBucket(server.endpoint)
  proxy = await startProxy(server.endpoint)
})
afterAll(async () => {
  await proxy?.close()
  await server?.close()
})

const fresh = () => joinUrl(bucket, `place ${++places}`)
const throughProxy = (url: string) => url.replace(/endpoint=[^&]*/, `endpoint=${encodeURIComponent(proxy.endpoint)}`)
const client = async (url: string, options = {}) => S3Client.open(await locate(url), options)
const blobsAt = async (url: string, options = {}) => new S3Blobs(await client(url, options), { hash, graceMs: 0 })

const hex = ({ digest }: { digest: Uint8Array }) => Buffer.from(digest).toString('hex')
/** The real content of the returned bytes. */
const digestsIn = async (blobs: S3Blobs, chunks: readonly { digest: Uint8Array }[]) =>
  (await blobs.get(chunks.map(({ digest }) => digest))).map((bytes) => bytes && hex({ digest: hash(bytes) }))

describe.skipIf(server === null)(`a real server (${server?.kind})`, () => {
  describe('keeps the contract of places for chunks', () => {
    blobTests((title, body) => {
      it(title, async () => {
        const url = fresh()
        const open = async (): Promise<Store> =>
          ({ ...openMemory({ namespace: 'default', hash }), blobs: await blobsAt(url) }) as Store
        await body(new Kit(await open(), open, {}))
      })
    })
  })

  it('obeys If-None-Match, which the probe finds, and a lost answer is not taken for a refusal', async () => {
    const url = fresh()
    expect(await probeConditions(await client(url))).toBe(true)
    const late = await client(throughProxy(url))
    let isFirst = true
    proxy.fault = ({ method }) => {
      if (method !== 'PUT' || !isFirst) return 'pass'
      isFirst = false
      return 'lost'
    }
    expect(await late.put('once', new Uint8Array([1]), true)).toBe(true)
    expect(await late.put('once', new Uint8Array([2]), true)).toBe(false)
    expect(await late.get('once')).toEqual(new Uint8Array([1]))
  })

  it('a store that ignores conditions is treated as shared: it is not swept without a request', async () => {
    const url = fresh()
    const plain = await client(url)
    const ignoring = new Proxy(plain, {
      get: (target, name) =>
        name === 'put' ? (key: string, bytes: Uint8Array) => target.put(key, bytes) : Reflect.get(target, name),
    })
    const methods = ['get', 'list', 'delete', 'now'] as const
    const objects = {
      name: plain.name,
      meter: plain.meter,
      put: ignoring.put,
      ...Object.fromEntries(
        methods.map((name) => [name, (...args: never[]) => (plain[name] as (...a: never[]) => unknown)(...args)]),
      ),
    } as unknown as typeof plain
    const place = placeIn(objects, { hash })
    await place.make()
    await place.setOwner('somebody')
    expect(await place.owner()).toBeNull()
  })

  it('faults of every kind on every request: acknowledged chunks exist, and nothing is damaged', async () => {
    const kinds = ['refuse', 'lost', 'torn', 409, 500, 503] as const
    for (const kind of kinds) {
      const url = fresh()
      // Each request fails once, then goes through.
      const failed = new Set<string>()
      proxy.fault = ({ method, path }) => {
        const name = `${method} ${path}`
        if (failed.has(name)) return 'pass'
        failed.add(name)
        return kind
      }
      const blobs = await blobsAt(throughProxy(url))
      const [a, b, c] = [chunk('a', 300_000), chunk('b'), chunk('c', 200_000)]
      await blobs.put([a, b])
      await blobs.put([a, b, c])
      await blobs.delete([b.digest], Date.now() + 1000)
      await blobs.compact(true)
      expect(await digestsIn(blobs, [a, b, c]), String(kind)).toEqual([hex(a), null, hex(c)])
      proxy.fault = () => 'pass'
      expect(await digestsIn(await blobsAt(url), [a, c]), String(kind)).toEqual([hex(a), hex(c)])
      expect(failed.size, String(kind)).toBeGreaterThan(5)
    }
  })

  it('a read that is slow to begin is overtaken by a second', async () => {
    const url = fresh()
    const objects = await client(throughProxy(url))
    proxy.fault = () => 'pass'
    await objects.put('slow', new Uint8Array([7]))
    let reads = 0
    proxy.fault = ({ method }) => (method === 'GET' && ++reads === 1 ? 'slow' : 'pass')
    expect(await objects.get('slow')).toEqual(new Uint8Array([7]))
    expect(objects.meter.hedges).toBe(1)
  })

  it('a server that stays away is an error that names it, after the patience given', async () => {
    proxy.fault = () => 503
    const objects = await client(throughProxy(fresh()), { patienceMs: 300 })
    await expect(objects.get('x')).rejects.toMatchObject({ code: 'STORE_IO', data: { answer: 'SlowDown' } })
    proxy.fault = () => 'refuse'
    await expect(objects.get('x')).rejects.toMatchObject({ code: 'STORE_UNREACHABLE' })
    proxy.fault = () => 'pass'
    const none = (await newBucket(server!.endpoint)).replace(/s3:\/\/[^?]*/, 's3://reprise-no-such-bucket')
    await expect((await client(none)).put('x', new Uint8Array([1]))).rejects.toMatchObject({ code: 'NOT_FOUND' })
  })

  it('keys with characters that must be escaped, and more objects than a page of a list', async () => {
    const url = joinUrl(bucket, "odd (1) it's!")
    const objects = await client(url)
    await objects.put("a b'(c)!", new Uint8Array([1]))
    expect((await objects.list('')).map(({ key, bytes }) => [key, bytes])).toEqual([["a b'(c)!", 1]])
    expect(await objects.get("a b'(c)!", { last: 10 })).toEqual(new Uint8Array([1]))
  })

  it('identifies itself to its peers', async () => {
    const place = await openS3Place(fresh(), { hash })
    expect([await place.exists(), await place.mark(), await place.owner()]).toEqual([false, null, null])
    await place.make()
    expect(await place.setMark('one')).toBe('one')
    expect(await place.setMark('two')).toBe('one')
    await place.setOwner('me')
    expect(await place.owner()).toBe('me')
    await place.setShared()
    expect(await place.owner()).toBeNull()
  })
})
