// Borders: namespaces are isolated from each other (G14), and a closed store does nothing.

import assert from 'node:assert/strict'
import { feedStart, type Store } from '../../core/store/ports.ts'
import {
  asManifest,
  assertSame,
  asTimeline,
  asWorker,
  expectOk,
  expectRefused,
  expectRejection,
  hash,
  type Kit,
  message,
  type Test,
  utf8,
  Writer,
  worker,
} from './kit.ts'
import { everythingIn } from './operations.ts'

export function namespaceTests(test: Test): void {
  test('G14: a namespace sees nothing of another: not its timelines, mail, feed, workers, cursors or chunks', async (kit) => {
    const alpha = await kit.open('alpha')
    const beta = await kit.open('beta')
    await fill(kit, alpha)
    assert.deepEqual(await beta.timelines({ limit: 10 }), [])
    assert.deepEqual(await beta.head([asTimeline('a')]), [null])
    assert.deepEqual(await beta.read(asTimeline('a'), 0, 1000), [])
    assert.deepEqual((await beta.inbox(asTimeline('a'), 10)).messages, [])
    assert.deepEqual(await beta.checkpoints(asTimeline('a')), [])
    assert.deepEqual(await beta.cursors(), [])
    assert.deepEqual(await beta.workers(), [])
    assert.deepEqual(await beta.claim({ worker: asWorker('w9'), queues: ['q'], limit: 10 }), [])
    assert.deepEqual(await beta.blobs.list(null, 10), [])
    assert.deepEqual(await beta.blobs.get([hash(utf8('chunk'))]), [null])
    const page = await beta.feed(feedStart, {}, 10)
    assert.deepEqual([page.items, page.isEnd], [[], true])
  })

  test('G14: the same ids in two namespaces are independent', async (kit) => {
    const alpha = await kit.open('alpha')
    const beta = await kit.open('beta')
    const inAlpha = await fill(kit, alpha)
    const before = await everythingIn(kit, alpha, 'a')
    const inBeta = await fill(kit, beta)
    await inBeta.append('more')
    expectOk(await inBeta.commit({ cursors: { c: null }, status: 'other' }))
    await beta.retire([asWorker('w1')])
    await beta.blobs.delete([hash(utf8('chunk'))], Number.MAX_SAFE_INTEGER)
    expectOk(await inBeta.commit({ forget: true }))
    await beta.upkeep.tidy(Number.MAX_SAFE_INTEGER)
    assertSame(await everythingIn(kit, alpha, 'a'), before, 'alpha')
    assert.equal((await alpha.beat(worker('w1'))).ok, true)
    assert.equal((await alpha.blobs.list(null, 10)).length, 1)
    assertSame(await alpha.head([inAlpha.id]), await (await kit.open('alpha')).head([inAlpha.id]), 'alpha')
  })

  test('G14: no base, fork or pin crosses a namespace', async (kit) => {
    const alpha = await kit.open('alpha')
    const beta = await kit.open('beta')
    const source = await fill(kit, alpha)
    const writer = await kit.create('b', { store: beta })
    expectRefused(await writer.commit({ publish: [writer.manifest('x', { baseId: asManifest('c1') })] }), 'BASE_GONE')
    const fork = new Writer(kit, beta, 'fork', 'w1')
    fork.seq = 1
    fork.digest = source.digest
    const base = { timeline: source.id, seq: 1, digest: source.digest }
    expectRefused(await fork.take({ create: { digest: source.digest, base } }), 'NOT_FOUND')
    await writer.append('one')
    expectOk(await writer.commit({ trim: { seq: 1, digest: writer.digest, restsOn: [] } }))
  })
}

export function closingTests(test: Test): void {
  test('a closed store rejects every call with CLOSED, and a second close changes nothing', async (kit) => {
    const store = await kit.open()
    const writer = await kit.create('a', { store })
    const commit = writer.plan({ status: 'late' })
    await store.close()
    await store.close()
    const id = asTimeline('a')
    const calls: (() => unknown)[] = [
      () => store.commit([commit]),
      () => store.read(id, 0, 1),
      () => store.head([id]),
      () => store.inbox(id, 1),
      () => store.claim({ worker: asWorker('w'), queues: ['q'], limit: 1 }),
      () => store.nextDue({ queues: ['q'] }),
      () => store.feed(feedStart, {}, 1),
      () => store.timelines({ limit: 1 }),
      () => store.checkpoints(id),
      () => store.cursors(),
      () => store.workers(),
      () => store.beat(worker('w')),
      () => store.retire([asWorker('w')]),
      () => store.upkeep.inspect(),
      () => store.upkeep.facts(),
      () => store.upkeep.tidy(0),
      () => store.blobs.put([{ digest: hash(utf8('x')), bytes: utf8('x') }]),
      () => store.blobs.get([hash(utf8('x'))]),
      () => store.blobs.list(null, 1),
      () => store.blobs.delete([hash(utf8('x'))], 0),
    ]
    for (const call of calls) await expectRejection(call, 'CLOSED')
    assert.equal((await kit.head('a')).status, '', 'other processes continue')
  })
}

async function fill(kit: Kit, store: Store): Promise<Writer> {
  const writer = await kit.create('a', { store, worker: 'w1' })
  await store.beat(worker('w1'))
  await writer.append('one')
  await writer.publish('c1')
  const parts = { queue: 'q', wakeup: 1, cursors: { c: '' }, send: [message('a', 'm1')], attributes: { k: 'v' } }
  expectOk(await writer.commit({ ...parts, release: true }))
  await store.blobs.put([{ digest: hash(utf8('chunk')), bytes: utf8('chunk') }])
  return writer
}
