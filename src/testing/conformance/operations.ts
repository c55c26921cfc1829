// Operations: one commit of every kind, repeated under its operation id: it is applied once and reported as a duplicate.

import assert from 'node:assert/strict'
import type { Commit, Store } from '../../core/store/ports.ts'
import {
  asManifest,
  asMessage,
  asOperation,
  assertSame,
  asTimeline,
  asWorker,
  expectOk,
  expectRefused,
  hash,
  type Kit,
  message,
  type Test,
  utf8,
  type Writer,
} from './kit.ts'

/** Every kind of guarded commit, for a writer made by prepareForKinds. */
export const commitKinds: Record<string, (writer: Writer) => Partial<Commit>> = {
  append: (writer) => ({ run: writer.run('again') }),
  take: (writer) => ({ take: { worker: writer.worker, from: 'free' } }),
  'take and append': (writer) => ({
    take: { worker: asWorker('worker-9'), from: 'anyone' },
    run: writer.run('again'),
  }),
  release: () => ({ release: true }),
  branch: (writer) => ({
    branch: { archive: asTimeline('old'), seq: 1, digest: writer.digest, floor: { seq: 0, digest: writer.digest } },
  }),
  publish: (writer) => ({ publish: [writer.manifest('c2')] }),
  marks: () => ({ marks: [{ id: asManifest('c1'), label: 'x' }] }),
  drop: () => ({ drop: [asManifest('c1')] }),
  trim: (writer) => ({ trim: { seq: 2, digest: writer.digest, restsOn: [asManifest('c1')] } }),
  consume: () => ({ consume: [asMessage('m1')] }),
  send: () => ({ send: [message('b', 'm2')] }),
  fields: () => ({ wakeup: 3, queue: 'q', priority: 1, status: 's', attributes: { a: 1 } }),
  cursors: () => ({ cursors: { here: '' } }),
  forget: () => ({ forget: true }),
}

/** A timeline "a" with two runs, a verified checkpoint c1 and a message m1: enough for one commit of any kind. */
export async function prepareForKinds(kit: Kit, store: Store = kit.store): Promise<Writer> {
  const writer = await kit.create('a', { store })
  await writer.append('one')
  await writer.append('two')
  await writer.publish('c1', { verifiedAt: 1 })
  expectOk((await store.commit([{ operation: kit.operation(), guard: null, send: [message('a', 'm1')] }]))[0])
  return writer
}

export function operationTests(test: Test): void {
  for (const [kind, parts] of Object.entries(commitKinds)) {
    test(`G4: ${kind} repeated with the same operation id is applied once and reports that`, async (kit) => {
      const writer = await prepareForKinds(kit)
      const commit = writer.plan(parts(writer))
      const first = expectOk((await kit.store.commit([commit]))[0])
      assert.equal(first.isDuplicate, false)
      const after = await everything(kit, 'a', 'b', 'old')
      for (const store of [kit.store, await kit.open()]) {
        const again = expectOk((await store.commit([commit]))[0])
        assert.deepEqual(again, { ...first, isDuplicate: true })
      }
      assertSame(await everything(kit, 'a', 'b', 'old'), after, 'nothing changed')
    })
  }

  for (const [kind, parts] of Object.entries(commitKinds)) {
    if (kind === 'forget') continue
    test(`G4: ${kind} repeated after a commit beside the owner is applied once and reports that`, async (kit) => {
      const writer = await prepareForKinds(kit)
      const commit = writer.plan(parts(writer))
      const first = expectOk((await kit.store.commit([commit]))[0])
      const beside: Partial<Commit>[] = [{ attributes: { note: 'x' } }]
      if (kind !== 'branch') beside.push({ publish: [writer.manifest('c8')] })
      if (kind !== 'branch' && kind !== 'drop') beside.push({ marks: [{ id: asManifest('c1'), drill: 'ok' }] })
      for (const change of beside) {
        const guard = { timeline: writer.id, epoch: (await kit.head('a')).epoch }
        const outcome = await kit.store.commit([{ operation: kit.operation(), guard, aside: true, ...change }])
        assert.equal(expectOk(outcome[0]).isDuplicate, false)
      }
      const before = await kit.head('a')
      assert.deepEqual(before.attributes.note, 'x')
      const again = expectOk((await kit.store.commit([commit]))[0])
      assert.deepEqual([again.isDuplicate, again.epoch, again.seq], [true, first.epoch, first.seq])
      assertSame(await kit.head('a'), before, 'nothing changed')
    })
  }

  test('a commit beside the owner has only parts that can be applied a second time', async (kit) => {
    const writer = await kit.create('a')
    const { operation, guard } = writer.plan({})
    for (const more of [{ status: 'x' }, { release: true }, { run: writer.run('one') }, { cursors: { c: '' } }]) {
      await assert.rejects(async () => await kit.store.commit([{ operation, guard, aside: true, ...more }]), {
        code: 'INVALID_ARGUMENT',
      })
    }
  })

  test('G4: the creation of a timeline repeated with the same operation id is applied once', async (kit) => {
    const commit: Commit = {
      operation: kit.operation(),
      guard: { timeline: asTimeline('a'), epoch: 0, seq: 0, digest: hash(utf8('a')) },
      take: { worker: asWorker('w'), from: 'free', create: { digest: hash(utf8('a')) } },
    }
    const [first, second] = await kit.store.commit([commit, commit])
    assert.deepEqual(expectOk(first), { ok: true, epoch: 1, seq: 0, isDuplicate: false })
    assert.deepEqual(expectOk(second), { ok: true, epoch: 1, seq: 0, isDuplicate: true })
    assert.equal((await kit.head('a')).epoch, 1)
  })

  test('G3: a take repeated after another worker’s claim returns its own epoch, not the current one', async (kit) => {
    const writer = await kit.create('a')
    expectOk(await writer.commit({ queue: 'q', wakeup: 0 }))
    const take = writer.plan({ take: { worker: writer.worker, from: 'free' } })
    expectOk((await kit.store.commit([take]))[0])
    const [claimed] = await kit.store.claim({ worker: asWorker('worker-2'), queues: ['q'], limit: 1 })
    assert.equal(claimed?.epoch, 3)
    const again = expectOk((await kit.store.commit([take]))[0])
    assert.deepEqual([again.epoch, again.isDuplicate], [2, true])
    writer.accept(take)
    expectRefused(await writer.commit({ status: 'x' }), 'FENCED')
  })

  test('operations are recognised by id: the same content under another id is decided again', async (kit) => {
    const writer = await kit.create('a')
    const commit = writer.plan({ run: writer.run('one') })
    expectOk((await kit.store.commit([commit]))[0])
    expectRefused((await kit.store.commit([{ ...commit, operation: asOperation('another') }]))[0], 'CONFLICT')
  })

  test('a refused commit can be repeated with the same operation id once its obstacle is removed', async (kit) => {
    const writer = await kit.create('a')
    const commit = writer.plan({ consume: [asMessage('m1')] })
    expectRefused((await kit.store.commit([commit]))[0], 'CONFLICT')
    await kit.send('a', 'm1')
    assert.equal(expectOk((await kit.store.commit([commit]))[0]).isDuplicate, false)
  })
}

/** The complete visible state of some timelines, without the times of reading. */
export function everything(kit: Kit, ...ids: string[]): Promise<unknown> {
  return everythingIn(kit, kit.store, ...ids)
}

export async function everythingIn(kit: Kit, store: Store, ...ids: string[]): Promise<unknown> {
  const feed = await kit.readFeed(undefined, 100, store)
  return {
    heads: await store.head(ids.map(asTimeline)),
    runs: await Promise.all(ids.map((id) => store.read(asTimeline(id), 0, 10_000_000))),
    catalog: await Promise.all(ids.map((id) => store.checkpoints(asTimeline(id)))),
    mail: await Promise.all(ids.map(async (id) => (await store.inbox(asTimeline(id), 100)).messages)),
    cursors: await store.cursors(),
    feed,
  }
}
