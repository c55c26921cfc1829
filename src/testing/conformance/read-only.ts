// A read-only store: it shows everything and writes nothing, in the same way for every store.

import assert from 'node:assert/strict'
import { feedStart } from '../../core/store/ports.ts'
import { asWorker, expectRejection, hash, type Test, utf8, wholeFeed, worker } from './kit.ts'

export function readOnlyTests(test: Test): void {
  test('reads stored data, also writes of other processes meanwhile', async (kit) => {
    const writer = await kit.create('a')
    await writer.append('one')
    await writer.publish('c1')
    await kit.send('a', 'm1')
    const reading = await kit.open(undefined, { readOnly: true })
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
      () => reading.upkeep.tidy(Number.MAX_SAFE_INTEGER),
      () => reading.blobs.put([chunk]),
      () => reading.blobs.delete([hash(utf8('x'))], Number.MAX_SAFE_INTEGER),
    ]
    for (const write of writes) await expectRejection(write, 'STORE_READ_ONLY')
    assert.deepEqual(await kit.head('a'), before)
    assert.equal((await kit.store.blobs.list(null, 10)).length, 1)
    assert.equal((await reading.blobs.get([hash(utf8('x'))]))[0]?.length, 1)
  })

  test('a namespace without any write is empty', async (kit) => {
    const reading = await kit.open('nobody', { readOnly: true })
    assert.deepEqual(await reading.timelines({ limit: 10 }), [])
    const { items, isEnd } = await reading.feed(feedStart, {}, 10)
    assert.deepEqual([items.length, isEnd], [0, true])
  })
}
