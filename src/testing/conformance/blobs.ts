// Chunks: immutable bytes by digest, touched when put again, deleted only when old.

import assert from 'node:assert/strict'
import { toHex } from '../../core/coordinate.ts'
import { assertSame, hash, type Test, until, utf8 } from './kit.ts'

const chunk = (text: string) => ({ digest: hash(utf8(text)), bytes: utf8(text) })

export function blobTests(test: Test): void {
  test('chunks are returned in the order of the request, null where missing, twice where named twice', async (kit) => {
    const { blobs } = kit.store
    const [a, b, missing] = [chunk('a'), chunk('b'), chunk('missing')]
    await blobs.put([a, b])
    const found = await blobs.get([b, missing, a, b].map((one) => one.digest))
    assertSame(found, [b.bytes, null, a.bytes, b.bytes], 'the chunks')
    assert.deepEqual(await blobs.get([]), [])
    await blobs.put([])
  })

  test('empty, large and many chunks survive, put twice or in one call', async (kit) => {
    const { blobs } = kit.store
    const large = new Uint8Array(3_000_000).map((_, i) => (i * 7) % 251)
    const chunks = [chunk(''), { digest: hash(large), bytes: large }, chunk('x'), chunk('x')]
    for (let i = 0; i < 300; i++) chunks.push(chunk(`many ${i}`))
    await blobs.put(chunks)
    await blobs.put(chunks.slice(0, 10))
    const found = await (await kit.open()).blobs.get(chunks.map((one) => one.digest))
    for (const [i, bytes] of found.entries()) {
      assert.ok(bytes && Buffer.compare(bytes, chunks[i]!.bytes) === 0, `chunk ${i} is whole`)
    }
    assert.equal((await blobs.list(null, 1000)).length, 303)
  })

  test('the list is in digest order, page by page, with sizes', async (kit) => {
    const { blobs } = kit.store
    const chunks = Array.from({ length: 25 }, (_, i) => chunk('x'.repeat(i)))
    await blobs.put(chunks)
    const listed = []
    for (;;) {
      const page = await blobs.list(listed.at(-1)?.digest ?? null, 10)
      if (page.length === 0) break
      assert.ok(page.length <= 10)
      listed.push(...page)
    }
    const sizes = new Map(chunks.map((one) => [toHex(one.digest), one.bytes.length]))
    assert.deepEqual(
      listed.map((row) => toHex(row.digest)),
      [...sizes.keys()].sort(),
    )
    for (const row of listed) assert.equal(row.bytes, sizes.get(toHex(row.digest)))
  })

  test('A4.5: only chunks last touched before a time are deleted, and a second put counts as a touch', async (kit) => {
    const { blobs } = kit.store
    const [old, touched, missing] = [chunk('old'), chunk('touched'), chunk('missing')]
    await blobs.put([old, touched])
    const digests = [old, touched, missing].map((one) => one.digest)
    const ageOf = async (digest: Uint8Array) =>
      (await blobs.list(null, 100)).find((row) => toHex(row.digest) === toHex(digest))!.touchedAt
    const first = await ageOf(touched.digest)
    assert.equal(await blobs.delete(digests, first - 1000), 0, 'none is that old')
    await until(async () => {
      await blobs.put([touched])
      return (await ageOf(touched.digest)) > first
    }, 'time passes')
    assert.equal(await blobs.delete(digests, await ageOf(touched.digest)), 1)
    assertSame(await blobs.get(digests), [null, touched.bytes, null], 'the remaining chunks')
    assert.equal(await blobs.delete([], Number.MAX_SAFE_INTEGER), 0)
    assert.equal(await blobs.delete(digests, (await ageOf(touched.digest)) + 1000), 1)
    assert.deepEqual(await blobs.list(null, 10), [])
    await blobs.put([old])
    assertSame(await blobs.get([old.digest]), [old.bytes], 'it can come back')
  })

  test('A4.5: a put or a touch sets the requested time of a chunk; missing chunks are reported', async (kit) => {
    const { blobs } = kit.store
    const [put, touched, missing] = [chunk('put'), chunk('touched'), chunk('missing')]
    const later = Date.now() + 3_600_000
    await blobs.put([put], later)
    await blobs.put([touched])
    assertSame(await blobs.touch([touched.digest, missing.digest], later), [missing.digest], 'those missing')
    assert.deepEqual(await blobs.touch([], later), [])
    const rows = await blobs.list(null, 10)
    for (const row of rows)
      assert.ok(row.touchedAt >= later, `touched at ${row.touchedAt}, at least ${later} was asked for`)
    assert.equal(await blobs.delete([put.digest, touched.digest], later), 0)
    assert.equal(await blobs.delete([put.digest, touched.digest], later + 10_000), 2)
    // A time in the past does not make a chunk older.
    const before = Date.now()
    await blobs.put([put], 1)
    await blobs.touch([put.digest], 1)
    assert.ok((await blobs.list(null, 10))[0]!.touchedAt > before - 60_000)
  })

  test('the store does not check bytes: the caller finds a chunk under a wrong digest', async (kit) => {
    const { blobs } = kit.store
    const name = hash(utf8('name'))
    await blobs.put([{ digest: name, bytes: utf8('something else') }])
    assertSame(await blobs.get([name]), [utf8('something else')], 'as given')
  })
}
