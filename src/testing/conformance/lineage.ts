// Lineage: how timelines are created, forked, rolled back and forgotten.

import assert from 'node:assert/strict'
import { guardOf } from '../../core/store/commit-guard.ts'
import type { Commit } from '../../core/store/ports.ts'
import {
  asManifest,
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
  Writer,
} from './kit.ts'
import { everything } from './operations.ts'

export function lineageTests(test: Test): void {
  making(test)
  branching(test)
  forgetting(test)
}

function making(test: Test): void {
  test('a missing timeline is NOT_FOUND without create, and made with it only under epoch 0', async (kit) => {
    const writer = new Writer(kit, kit.store, 'a', 'worker-1')
    assert.equal(expectRefused(await writer.take(), 'NOT_FOUND').head, null)
    expectRefused(await writer.commit({ status: 'x' }), 'NOT_FOUND')
    const create = { digest: writer.digest }
    writer.epoch = 3
    assert.equal(expectRefused(await writer.take({ create }), 'FENCED').head, null)
    writer.epoch = 0
    writer.seq = 5
    expectRefused(await writer.take({ create }), 'CONFLICT')
    assert.equal(await kit.isThere('a'), false)
    writer.seq = 0
    assert.equal(expectOk(await writer.take({ create })).epoch, 1)
  })

  test('epoch 0 takes a timeline only if it never had an owner, with create or without', async (kit) => {
    const writer = await kit.create('a')
    expectOk(await writer.commit({ release: true }))
    const late = new Writer(kit, kit.store, 'a', 'worker-2')
    expectRefused(await late.take({ create: { digest: late.digest } }), 'FENCED')
    expectRefused(await late.take(), 'FENCED')
    assert.equal((await kit.head('a')).epoch, 1)
  })

  test('create on an existing timeline is a plain take and changes nothing else', async (kit) => {
    const writer = await kit.create('a')
    await writer.append('one')
    expectOk(
      await writer.take({ create: { digest: hash(utf8('other')), floor: { seq: 9, digest: hash(utf8('other')) } } }),
    )
    const head = await kit.head('a')
    assert.deepEqual([head.seq, head.floor, head.epoch], [1, 0, 2])
    assertSame(head.digest, writer.digest, 'the digest')
  })

  test('of many processes that create the same timeline exactly one succeeds', async (kit) => {
    const stores = [kit.store, await kit.open(), await kit.open()]
    const outcomes = await Promise.all(
      [0, 1, 2, 3, 4, 5].map((i) => {
        const rival = new Writer(kit, stores[i % 3]!, 'a', `rival-${i}`)
        return rival.take({ from: 'free', create: { digest: rival.digest } })
      }),
    )
    assert.equal(outcomes.filter((outcome) => outcome.ok).length, 1)
    for (const outcome of outcomes) if (!outcome.ok) assert.equal(outcome.code, 'FENCED')
  })

  test('A9.1: a fork begins at its base, keeps its parent’s floor, and continues with its own history', async (kit) => {
    const parent = await kit.create('parent')
    await parent.append('one')
    const at = parent.twin()
    await parent.append('two', 'three')
    const base = { timeline: parent.id, seq: 1, digest: at.digest }
    const fork = await kit.create('fork', { create: { digest: at.digest, base } })
    const made = await kit.head('fork')
    assert.deepEqual([made.seq, made.floor], [1, 0])
    assertSame(made.base, base, 'the base')
    assertSame(made.floorDigest, (await kit.head('parent')).floorDigest, 'the floor is the parent’s')
    const run = await fork.append('else')
    assert.equal(run.first, 2)
    assertSame(await kit.store.read(fork.id, 0, 10_000), [run], 'of this timeline only')
    assert.equal((await kit.head('parent')).seq, 3)
  })

  test('a timeline made with a floor and without a base starts there', async (kit) => {
    const digest = hash(utf8('imported'))
    const writer = new Writer(kit, kit.store, 'a', 'worker-1')
    writer.seq = 40
    writer.digest = digest
    expectOk(await writer.take({ create: { digest, floor: { seq: 40, digest } } }))
    const head = await kit.head('a')
    assert.deepEqual([head.seq, head.floor], [40, 40])
    assertSame([head.digest, head.floorDigest], [digest, digest], 'digests')
    assert.equal((await writer.append('next')).first, 41)
  })

  test('a fork of a missing timeline is NOT_FOUND, and one beyond its parent’s head or below its floor OUT_OF_RANGE', async (kit) => {
    const parent = await trimmed(kit, 'parent')
    const attempt = async (seq: number, floor?: number, timeline: string = parent.id) => {
      const { digest } = parent
      const fork = new Writer(kit, kit.store, 'fork', 'worker-1')
      fork.seq = seq
      fork.digest = digest
      const place = floor === undefined ? {} : { floor: { seq: floor, digest } }
      return fork.take({ create: { digest, base: { timeline: asTimeline(timeline), seq, digest }, ...place } })
    }
    expectRefused(await attempt(1, undefined, 'nobody'), 'NOT_FOUND')
    expectRefused(await attempt(4), 'OUT_OF_RANGE')
    expectRefused(await attempt(3, 1), 'OUT_OF_RANGE')
    expectRefused(await attempt(1), 'OUT_OF_RANGE')
    expectRefused(await attempt(2, 3), 'OUT_OF_RANGE')
    assert.equal(await kit.isThere('fork'), false)
    expectOk(await attempt(1, 1))
    assert.deepEqual([(await kit.head('fork')).seq, (await kit.head('fork')).floor], [1, 1])
  })
}

function branching(test: Test): void {
  test('A9.2: a rollback archives the timeline and continues as a fork of it; nothing is erased', async (kit) => {
    await kit.beat('worker-1')
    const writer = await kit.create('a')
    const first = await writer.append('one')
    const early = writer.twin()
    const second = await writer.append('two')
    await writer.publish('c1', { verifiedAt: 1 })
    expectOk(
      await writer.commit({
        queue: 'q',
        priority: 2,
        status: 'busy',
        wakeup: 77,
        attributes: { k: 'v' },
        cursors: { c: '' },
      }),
    )
    await kit.send('a', 'm1')
    const before = await kit.head('a')
    const branch = rollBack(early, 'a~1', 1)
    const outcome = expectOk(await writer.commit({ branch }))
    assert.deepEqual([outcome.epoch, outcome.seq], [2, 1])

    const now = await kit.head('a')
    assertSame(
      { ...now, updatedAt: 0 },
      {
        ...before,
        updatedAt: 0,
        seq: 1,
        digest: early.digest,
        epoch: 2,
        floorDigest: branch.floor.digest,
        base: { timeline: 'a~1', seq: 1, digest: early.digest },
        operation: now.operation,
      },
      'owner, queue, priority, status, attributes, wakeup and mail stay with the id',
    )
    const archive = await kit.head('a~1')
    assertSame(
      { ...archive, updatedAt: 0 },
      {
        ...before,
        timeline: 'a~1',
        updatedAt: 0,
        status: 'archived',
        owner: null,
        isOwnerAlive: false,
        wakeup: null,
        queue: null,
        priority: 0,
        attributes: {},
        mail: 0,
      },
      'the archive has the earlier history',
    )
    assertSame(await kit.store.read(asTimeline('a~1'), 0, 10_000), [first, second], 'history is whole in the archive')
    assert.deepEqual(await kit.store.read(writer.id, 0, 10_000), [])
    assert.deepEqual(await kit.checkpointIds('a~1'), ['c1'])
    assert.deepEqual(await kit.checkpointIds('a'), [])
    assert.deepEqual(await kit.inboxIds('a'), ['m1'])
    assert.deepEqual(
      (await kit.store.cursors()).map((cursor) => cursor.owner),
      ['a'],
    )
    const third = await writer.append('other two')
    assert.equal(third.first, 2)
    const feed = (await kit.readFeed()).map((item) => [item.timeline, item.run.first])
    assert.deepEqual(feed, [
      ['a~1', 1],
      ['a~1', 2],
      ['a', 2],
    ])
  })

  test('a rollback can append, and change the owner, in the same commit', async (kit) => {
    const writer = await kit.create('a')
    const origin = writer.twin()
    await writer.append('one')
    const branch = rollBack(origin, 'old', 0)
    const take = { worker: asWorker('worker-2'), from: 'anyone' as const }
    const outcome = expectOk(await writer.commit({ take, branch, run: origin.run('other') }))
    assert.deepEqual([outcome.epoch, outcome.seq], [2, 1])
    const head = await kit.head('a')
    assert.deepEqual([head.owner, head.epoch, head.seq], ['worker-2', 2, 1])
    assert.equal((await kit.head('old')).epoch, 1)
  })

  test('a rollback can append without a sequence in the guard, whatever was written since', async (kit) => {
    const writer = await kit.create('a')
    const origin = writer.twin()
    await writer.append('one')
    const { timeline, epoch } = writer.guard
    await writer.append('two')
    const commit = { guard: { timeline, epoch }, branch: rollBack(origin, 'old', 0), run: origin.run('other') }
    const [outcome] = await kit.store.commit([{ operation: kit.operation(), ...commit }])
    assert.deepEqual([expectOk(outcome!).epoch, expectOk(outcome!).seq], [2, 1])
    assert.equal((await kit.head('old')).seq, 2)
  })

  test('messages consumed before a rollback stay consumed', async (kit) => {
    const writer = await kit.create('a')
    await kit.send('a', 'm1')
    const [found] = (await kit.store.inbox(writer.id, 1)).messages
    expectOk(await writer.commit({ run: writer.run('m1'), consume: [found!.id] }))
    expectOk(await writer.commit({ branch: rollBack(writer, 'old', 0) }))
    await kit.send('a', 'm1')
    assert.deepEqual(await kit.inboxIds('a'), [])
  })

  test('forks of a timeline that is rolled back are forks of the archive', async (kit) => {
    const parent = await kit.create('parent')
    await parent.append('one')
    const base = { timeline: parent.id, seq: 1, digest: parent.digest }
    await kit.create('fork', { create: { digest: parent.digest, base } })
    expectOk(await parent.commit({ branch: rollBack(parent, 'old', 1) }))
    assert.equal((await kit.head('fork')).base?.timeline, 'old')
    const forks = await kit.store.timelines({ parent: asTimeline('old'), limit: 10 })
    assert.deepEqual(
      forks.map((head) => head.timeline),
      ['fork', 'parent'],
    )
    const archive = parent.twin()
    const forget: Commit = { ...archive.plan({ forget: true }), guard: guardOf(await kit.head('old')) }
    expectRefused((await kit.store.commit([forget]))[0], 'PINNED')
  })

  test('a rollback is refused: NOT_FOUND, EXISTS, OUT_OF_RANGE', async (kit) => {
    const writer = await trimmed(kit, 'a')
    await kit.create('taken')
    const missing = new Writer(kit, kit.store, 'missing', 'worker-1')
    expectRefused(await missing.commit({ branch: rollBack(missing, 'old', 0) }), 'NOT_FOUND')
    const make: Commit['take'] = { worker: missing.worker, from: 'free', create: { digest: missing.digest } }
    expectRefused(await missing.commit({ take: make, branch: rollBack(missing, 'old', 0) }), 'NOT_FOUND')
    const before = await everything(kit, 'a', 'old', 'taken')
    expectRefused(await writer.commit({ branch: rollBack(writer, 'taken', 3, 2) }), 'EXISTS')
    expectRefused(await writer.commit({ branch: rollBack(writer, 'a', 3, 2) }), 'EXISTS')
    expectRefused(await writer.commit({ branch: rollBack(writer, 'old', 4, 2) }), 'OUT_OF_RANGE')
    expectRefused(await writer.commit({ branch: rollBack(writer, 'old', 3, 1) }), 'OUT_OF_RANGE')
    expectRefused(await writer.commit({ branch: rollBack(writer, 'old', 2, 3) }), 'OUT_OF_RANGE')
    assertSame(await everything(kit, 'a', 'old', 'taken'), before, 'nothing changed')
    expectOk(await writer.commit({ branch: rollBack(writer, 'old', 1, 1) }))
    assert.deepEqual([(await kit.head('a')).seq, (await kit.head('a')).floor], [1, 1])
  })

  test('drops and trims in a rollback affect the new branch: the archive keeps its checkpoints and history', async (kit) => {
    const writer = await kit.create('a')
    await writer.append('one')
    const atOne = writer.twin()
    await writer.publish('c1', { verifiedAt: 1 })
    await writer.append('two')
    await writer.publish('c2', { verifiedAt: 2, isPinned: true })
    const fork = { timeline: asTimeline('a'), seq: 1, digest: atOne.digest }
    await kit.create('fork', { create: { digest: atOne.digest, base: fork } })
    // The pinned checkpoint and the only checkpoint then belong to the archive: there is nothing to drop, nor to refuse.
    const branch = rollBack(atOne, 'old', 1)
    const drop = [asManifest('c1'), asManifest('c2')]
    // A fork and a cursor need this history, but it belongs to the archive by then.
    expectOk(await (await kit.create('reader')).commit({ cursors: { slow: '' } }))
    const trim = { seq: 1, digest: atOne.digest, restsOn: [] }
    expectOk(await writer.commit({ branch, drop, trim }))
    assert.deepEqual(await kit.checkpointIds('old'), ['c2', 'c1'])
    assert.deepEqual(await kit.checkpointIds('a'), [])
    assert.deepEqual([(await kit.head('a')).floor, (await kit.head('old')).floor], [1, 0])
    assert.equal((await kit.store.read(asTimeline('old'), 0, 1e6)).length, 2)
    // A trim must not rest on a checkpoint of the archive either.
    const again = await kit.create('b')
    await again.append('one')
    await again.publish('d1', { verifiedAt: 1 })
    const rests = { seq: 1, digest: again.digest, restsOn: [asManifest('d1')] }
    expectRefused(await again.commit({ branch: rollBack(again, 'older', 1), trim: rests }), 'PINNED')
  })
}

function forgetting(test: Test): void {
  test('forget removes the timeline with all its data, and its id can be used again', async (kit) => {
    const writer = await kit.create('a')
    const other = await kit.create('b')
    await writer.append('one')
    await other.append('one')
    await writer.publish('c1')
    await kit.send('a', 'm1')
    await kit.send('a', 'm2')
    const [mail] = (await kit.store.inbox(writer.id, 1)).messages
    expectOk(await writer.commit({ consume: [mail!.id], cursors: { mine: '' }, attributes: { k: 1 } }))
    const outcome = expectOk(await writer.commit({ forget: true }))
    assert.deepEqual([outcome.epoch, outcome.seq], [1, 1])
    assert.equal(await kit.isThere('a'), false)
    assert.deepEqual(await kit.store.read(writer.id, 0, 1000), [])
    assert.deepEqual(await kit.checkpointIds('a'), [])
    assert.deepEqual(await kit.inboxIds('a'), [])
    assert.deepEqual(await kit.store.cursors(), [])
    assert.deepEqual(
      (await kit.store.timelines({ limit: 10 })).map((head) => head.timeline),
      ['b'],
    )
    assert.deepEqual(
      (await kit.readFeed()).map((item) => item.timeline),
      ['b'],
    )
    await kit.send('a', 'm1')
    const again = await kit.create('a')
    assert.equal(again.epoch, 2)
    const head = await kit.head('a')
    assert.deepEqual([head.seq, head.mail], [0, 1])
    assertSame(head.attributes, {}, 'attributes')
    await again.publish('c1')
    const own = await again.append('anew')
    assertSame(await kit.store.read(again.id, 0, 1000), [own], 'only the new history')
    assert.deepEqual(
      (await kit.readFeed()).map((item) => item.timeline),
      ['b', 'a'],
      'the forgotten runs do not come back with the id',
    )
  })

  test('forget is PINNED while a fork needs it or a checkpoint is pinned', async (kit) => {
    const parent = await kit.create('parent')
    await parent.append('one')
    await parent.publish('c1', { isPinned: true })
    expectRefused(await parent.commit({ forget: true }), 'PINNED')
    expectOk(await parent.commit({ marks: [{ id: asManifest('c1'), isPinned: false }] }))
    const base = { timeline: parent.id, seq: 1, digest: parent.digest }
    const fork = await kit.create('fork', { create: { digest: parent.digest, base } })
    expectRefused(await parent.commit({ forget: true }), 'PINNED')
    await fork.publish('f1', { verifiedAt: 1 })
    expectOk(await fork.commit({ trim: { seq: 1, digest: fork.digest, restsOn: [asManifest('f1')] } }))
    expectOk(await parent.commit({ forget: true }))
    assert.equal((await kit.head('fork')).base?.timeline, 'parent')
  })

  test('forgetting a missing timeline succeeds and reports that it was applied', async (kit) => {
    const nobody = new Writer(kit, kit.store, 'nobody', 'worker-1')
    nobody.epoch = 3
    assert.deepEqual(expectOk(await nobody.commit({ forget: true })), { ok: true, epoch: 3, seq: 0, isDuplicate: true })
  })

  test('mail already sent by a forgotten timeline stays', async (kit) => {
    const writer = await kit.create('a')
    expectOk(await writer.commit({ send: [message('b', 'm1')] }))
    expectOk(await writer.commit({ forget: true }))
    assert.deepEqual(await kit.inboxIds('b'), ['m1'])
  })

  test('G4: mail after a forget in the same batch waits for the next timeline of that id', async (kit) => {
    const writer = await kit.create('a')
    await kit.send('a', 'm0')
    const mail = { operation: asOperation('mail'), guard: null, send: [message('a', 'm1')] }
    const outcomes = await kit.store.commit([writer.plan({ forget: true }), mail])
    assert.deepEqual(
      outcomes.map((outcome) => outcome.ok && outcome.isDuplicate),
      [false, false],
    )
    assert.deepEqual([await kit.isThere('a'), await kit.inboxIds('a')], [false, ['m1']])
    await kit.create('a')
    assert.equal((await kit.head('a')).mail, 1)
  })
}

/** Sequences 1, 2 and 3, each in its own run, trimmed up to 2. */
async function trimmed(kit: Kit, id: string): Promise<Writer> {
  const writer = await kit.create(id)
  await writer.append('one')
  const { digest } = await writer.append('two')
  await writer.append('three')
  await writer.publish(`${id} c`, { verifiedAt: 1 })
  expectOk(await writer.commit({ trim: { seq: 2, digest, restsOn: [asManifest(`${id} c`)] } }))
  return writer
}

function rollBack(at: Writer, archive: string, seq: number, floor = 0): NonNullable<Commit['branch']> {
  return { archive: asTimeline(archive), seq, digest: at.digest, floor: { seq: floor, digest: at.digest } }
}
