// Replacing stored bytes: only the bytes change, only in this namespace, while writers are at work.

import assert from 'node:assert/strict'
import type { Change, FeedItem, Rewritable, Store } from '../../core/store/ports.ts'
import { asMessage, assertSame, asTimeline, expectOk, hash, message, type Test, utf8 } from './kit.ts'

const mark = utf8('other: ')
const isMarked = (bytes: Uint8Array) => Buffer.from(bytes.subarray(0, mark.length)).equals(mark)
const marked = (bytes: Uint8Array) => new Uint8Array(Buffer.concat([mark, bytes]))
const markAll: Change = (bytes) => (isMarked(bytes) ? null : marked(bytes))

export function rewriteTests(test: Test): void {
  test('rewritten runs keep their digests, places and order, and appends continue after them', async (kit) => {
    const a = await kit.create('a')
    const runs = [await a.append('1'), await a.append('2', '3'), await a.append('x'.repeat(5000))]
    for (let n = 0; n < 70; n++) runs.push(await a.append(`small ${n}`))
    const b = await kit.create('b')
    runs.push(await b.append('of another'))
    const other = await kit.open('other')
    const elsewhere = await kit.create('a', { store: other })
    await elsewhere.append('left alone')
    const feed = await kit.readFeed()
    const heads = await kit.store.head([a.id, b.id])
    assert.equal(await all(kit.store, 'runs', markAll), runs.length)
    assert.equal(await all(kit.store, 'runs', markAll), 0, 'done is done')
    // A writer that was at work continues, and so does another process.
    runs.push(await a.append('after'))
    const again = await kit.open()
    for (const store of [kit.store, again]) {
      const read = [...(await readAll(store, 'a')), ...(await readAll(store, 'b'))]
      const ofB = runs[runs.length - 2]!
      const expected = [...runs.filter((run) => run !== ofB), ofB]
      assert.equal(read.length, expected.length)
      for (const [i, run] of read.entries()) {
        const was = expected[i]!
        assertSame([run.first, run.count, run.digest], [was.first, was.count, was.digest], `run ${i}`)
        const isNew = was === runs.at(-1)
        assertSame(run.bytes, isNew ? was.bytes : marked(was.bytes), `bytes of run ${i}`)
      }
    }
    const now = await kit.readFeed()
    // A position in a sharded store also holds the positions of the other shards.
    const place = ({ position, timeline, run }: FeedItem) => {
      return [kit.capabilities.isSharded ? '' : position, timeline, run.first, run.digest]
    }
    assertSame(now.slice(0, feed.length).map(place), feed.map(place), 'the feed')
    assertSame((await kit.store.head([b.id]))[0]!.digest, heads[1]!.digest, 'the head')
    assert.equal(isMarked((await other.read(asTimeline('a'), 0, 1000))[0]!.bytes), false)
    assert.deepEqual(await kit.store.upkeep.inspect(), [])
  })

  test('only runs of the named timeline and digest are replaced', async (kit) => {
    const a = await kit.create('a')
    const b = await kit.create('b')
    const runs = [await a.append('1'), await a.append('2', '3')]
    for (let n = 0; n < 40; n++) runs.push(await a.append(`small ${n}`))
    await b.append('1')
    const wanted = [runs[1]!, runs[20]!, runs.at(-1)!].map(({ first, digest, bytes }) => ({
      ...{ first, digest },
      bytes: marked(bytes),
    }))
    const strangers = [
      { ...wanted[0]!, digest: hash(utf8('another')) },
      { ...wanted[0]!, first: 999 },
    ]
    let changed = 0
    for (let left = 1; left > 0; ) {
      const done = await kit.store.upkeep.replace(a.id, wanted)
      left = done.left
      changed = Math.max(changed, done.changed)
    }
    assert.equal(changed > 0, true)
    assert.deepEqual(await kit.store.upkeep.replace(a.id, strangers), { changed: 0, left: 0 })
    assert.deepEqual(await kit.store.upkeep.replace(asTimeline('nobody'), wanted), { changed: 0, left: 0 })
    await a.append('after')
    const read = await readAll(await kit.open(), 'a')
    for (const [i, was] of runs.entries()) {
      const isChanged = wanted.some(({ first }) => first === was.first)
      assertSame(read[i]!.digest, was.digest, `digest ${i}`)
      assertSame(read[i]!.bytes, isChanged ? marked(was.bytes) : was.bytes, `bytes ${i}`)
    }
    const feed = await kit.readFeed()
    const inFeed = feed.filter(({ timeline, run }) => timeline === a.id && isMarked(run.bytes))
    assert.equal(inFeed.length, wanted.length)
    assert.equal(
      (await kit.store.read(b.id, 0, 1000)).some(({ bytes }) => isMarked(bytes)),
      false,
    )
    assert.deepEqual(await kit.store.upkeep.inspect(), [])
  })

  test('manifests, mail and chunks are rewritten in place, also mail to a missing timeline; removed ones stay removed', async (kit) => {
    const a = await kit.create('a')
    await a.append('1')
    await a.commit({ publish: [a.manifest('m1')] })
    await a.commit({ send: [message('a', 'x'), message('a', 'y'), message('nobody', 'z')] })
    await a.commit({ consume: [asMessage('x')] })
    const chunk = { digest: hash(utf8('chunk')), bytes: utf8('chunk') }
    await kit.store.blobs.put([chunk])
    const [before] = await kit.store.blobs.list(null, 10)
    const [record] = await kit.store.checkpoints(a.id)
    assert.equal(await all(kit.store, 'checkpoints', markAll), 1)
    assert.equal(await all(kit.store, 'messages', markAll), 2)
    const copies = kit.capabilities.isSharded ? 2 : 1
    const done = { next: null, seen: copies, changed: copies, left: 0 }
    assert.deepEqual(await kit.store.blobs.rewrite(markAll, null, 10), done)
    assertSame((await kit.store.checkpoints(a.id))[0], { ...record, body: marked(record!.body) }, 'the manifest')
    const { messages } = await kit.store.inbox(a.id, 10)
    assertSame(
      messages.map(({ id, data }) => [id, data]),
      [['y', marked(utf8('y'))]],
      'the mail',
    )
    const waiting = await kit.store.inbox(asTimeline('nobody'), 10)
    assertSame(
      waiting.messages.map(({ data }) => data),
      [marked(utf8('z'))],
      'mail to nobody',
    )
    assertSame(await kit.store.blobs.get([chunk.digest]), [marked(chunk.bytes)], 'the chunk')
    assert.equal((await kit.store.blobs.list(null, 10))[0]!.touchedAt, before!.touchedAt, 'it is as old as it was')
    assert.equal((await a.commit({ consume: [asMessage('y')] })).ok, true)
  })

  test('a damaged or missing catalog entry is restored', async (kit) => {
    const a = await kit.create('a')
    await a.append('1')
    const lines = [a.manifest('c1', { label: 'first' }), a.manifest('c2', { verifiedAt: 7, isPinned: true })]
    expectOk(await a.commit({ publish: lines }))
    const before = await kit.store.checkpoints(a.id)
    await all(kit.store, 'checkpoints', markAll)
    const lost = a.manifest('c0', { createdAt: 3, drill: 'ok', drilledAt: 9 })
    assert.deepEqual(await kit.store.upkeep.mendCatalog(a.id, [...before, lost]), { missing: 0 })
    const after = await kit.store.checkpoints(a.id)
    const named = (id: string) => after.find((line) => line.id === id)
    for (const line of [...before, lost]) assertSame(named(line.id), line, line.id)
    assert.equal(after.length, 3)
    assert.deepEqual(await kit.store.upkeep.inspect(), [])
    expectOk(await a.commit({ drop: [lost.id] }))
    assert.equal((await kit.store.checkpoints(a.id)).length, 2)
    assert.deepEqual(await kit.store.upkeep.mendCatalog(asTimeline('nobody'), [lost]), { missing: 0 })
    assert.deepEqual(await kit.store.checkpoints(asTimeline('nobody')), [])
  })

  test('a tidy and a whole scrub change no readable data', async (kit) => {
    const a = await kit.create('a')
    const run = await a.append('1')
    await kit.store.upkeep.tidy(0)
    await kit.store.upkeep.scrub({ whole: true })
    assertSame((await kit.store.read(a.id, 0, 1000))[0]!.bytes, run.bytes, 'the run')
    assert.equal((await a.append('2')).first, 2)
  })
}

/** Rewrites in small pages until nothing is left; returns the number of changes. */
async function all(store: Store, kind: Rewritable, change: Change): Promise<number> {
  let count = 0
  for (let waiting = 1; waiting > 0; ) {
    waiting = 0
    for (let after: string | null = null; ; ) {
      const { next, changed, left } = await store.upkeep.rewrite(kind, change, after, 7)
      count += changed
      waiting += left
      if (next === null) break
      after = next
    }
  }
  return count
}

async function readAll(store: Store, id: string) {
  const runs = []
  for (let after = 0; ; ) {
    const page = await store.read(asTimeline(id), after, 1000)
    if (page.length === 0) return runs
    runs.push(...page)
    const last = page.at(-1)!
    after = last.first + last.count - 1
  }
}
