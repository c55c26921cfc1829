// A read-only store: it shows everything and writes nothing, in the same way for every store.

import assert from 'node:assert/strict'
import { feedStart } from '../../core/store/ports.ts'
import {
  asMessage,
  asTimeline,
  asWorker,
  expectOk,
  expectRejection,
  hash,
  type Test,
  utf8,
  wholeFeed,
  worker,
} from './kit.ts'

export function readOnlyTests(test: Test): void {
  test('reads stored data, also writes of other processes meanwhile', async (kit) => {
    const writer = await kit.create('a')
    await writer.append('one')
    await writer.publish('c1')
    await kit.send('a', 'm1')
    const identity = await kit.store.identity('of the store')
    const reading = await kit.open(undefined, { readOnly: true })
    assert.equal(await reading.identity(), identity)
    assert.equal((await reading.head([writer.id]))[0]?.seq, 1)
    await writer.append('two')
    assert.equal((await reading.head([writer.id]))[0]?.seq, 2)
    assert.equal((await reading.read(writer.id, 0, 1e6)).length, 2)
    assert.equal((await wholeFeed(reading)).length, 2)
    assert.equal((await reading.timelines({ limit: 10 })).length, 1)
    assert.equal((await reading.checkpoints(writer.id)).length, 1)
    assert.equal((await reading.inbox(writer.id, 10)).messages.length, 1)
    assert.deepEqual([await reading.cursors(), await reading.upkeep.inspect()], [[], []])
    assert.equal((await reading.upkeep.facts()).isReadOnly, true)
    await reading.workers()
  })

  test('refuses every write with STORE_READ_ONLY, and changes nothing', async (kit) => {
    const writer = await kit.create('a')
    await kit.store.blobs.put([{ digest: hash(utf8('x')), bytes: utf8('x') }])
    const before = await kit.head('a')
    const reading = await kit.open(undefined, { readOnly: true })
    const chunk = { digest: hash(utf8('y')), bytes: utf8('y') }
    const writes: (() => unknown)[] = [
      () => reading.commit([writer.plan({ run: writer.run('one') })]),
      () => reading.commit([writer.plan({ status: 'never' })]),
      () => reading.claim({ worker: asWorker('w'), queues: ['q'], limit: 1 }),
      () => reading.beat(worker('w')),
      () => reading.retire([asWorker('w')]),
      () => reading.identity('another', true),
      () => reading.upkeep.tidy(Number.MAX_SAFE_INTEGER),
      () => reading.blobs.put([chunk]),
      () => reading.blobs.delete([hash(utf8('x'))], Number.MAX_SAFE_INTEGER),
    ]
    for (const write of writes) await expectRejection(write, 'STORE_READ_ONLY')
    assert.deepEqual(await kit.head('a'), before)
    assert.equal((await kit.store.blobs.list(null, 10)).length, 1)
    assert.equal((await reading.blobs.get([hash(utf8('x'))]))[0]?.length, 1)
  })

  test('a frozen store shows one moment, whatever is written, deleted and collected later', async (kit) => {
    const [writer, gone] = [await kit.create('a'), await kit.create('gone')]
    await writer.append('one')
    await writer.publish('c1')
    await gone.append('kept')
    await kit.send('a', 'm1')
    const chunk = { digest: hash(utf8('x')), bytes: utf8('x') }
    await kit.store.blobs.put([chunk], 1)
    const frozen = await kit.store.freeze()
    if (kit.capabilities.isSharded) return assert.equal(frozen, null)
    assert.ok(frozen)
    const view = async () => ({
      heads: await frozen.head([writer.id, gone.id, asTimeline('later')]),
      runs: [await frozen.read(writer.id, 0, 1e6), await frozen.read(gone.id, 0, 1e6)],
      feed: await wholeFeed(frozen),
      timelines: (await frozen.timelines({ limit: 10 })).map(({ timeline }) => timeline),
      checkpoints: await frozen.checkpoints(writer.id),
      mail: (await frozen.inbox(writer.id, 10)).messages.map(({ id }) => id),
      pasts: [await frozen.past([gone.id]), await frozen.upkeep.pasts(null, 10)],
      chunks: await frozen.blobs.get([chunk.digest]),
    })
    const before = await view()
    assert.deepEqual(before.mail, ['m1'])
    await writer.append('two')
    await writer.publish('c2')
    await kit.send('a', 'm2')
    expectOk(await writer.commit({ consume: [asMessage('m1')] }))
    expectOk(await gone.commit({ forget: true }))
    const later = await kit.create('later')
    await later.append('new')
    await kit.store.blobs.delete([chunk.digest], Number.MAX_SAFE_INTEGER)
    assert.deepEqual(await view(), before)
    // A second frozen store shows its own snapshot, and the store itself the present.
    const second = (await kit.store.freeze())!
    assert.equal((await second.head([writer.id]))[0]?.seq, 2)
    await writer.append('three')
    assert.deepEqual(await view(), before)
    assert.equal((await second.head([writer.id]))[0]?.seq, 2)
    assert.equal((await kit.head('a')).seq, 3)
    await expectRejection(() => frozen.commit([writer.plan({ status: 'never' })]), 'STORE_READ_ONLY')
    await frozen.close()
    await expectRejection(() => frozen.head([writer.id]), 'CLOSED')
    await second.close()
    await writer.append('four')
    assert.equal((await kit.head('a')).seq, 4)
  })

  test('a namespace without any write is empty', async (kit) => {
    const reading = await kit.open('nobody', { readOnly: true })
    assert.deepEqual(await reading.timelines({ limit: 10 }), [])
    const { items, isEnd } = await reading.feed(feedStart, {}, 10)
    assert.deepEqual([items.length, isEnd], [0, true])
  })
}
