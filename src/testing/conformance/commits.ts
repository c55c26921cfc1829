// Commits: each is atomic, independent in a batch, guarded by epoch and sequence.

import assert from 'node:assert/strict'
import type { Commit } from '../../core/store/ports.ts'
import {
  asManifest,
  asMessage,
  assertSame,
  asTimeline,
  asWorker,
  expectOk,
  expectRefused,
  expectRejection,
  hash,
  message,
  plain,
  type Test,
  until,
  utf8,
} from './kit.ts'
import { everything } from './operations.ts'

export function commitTests(test: Test): void {
  appending(test)
  guarding(test)
  fields(test)
}

function appending(test: Test): void {
  test('an append moves the head and can be read back byte for byte', async (kit) => {
    const writer = await kit.create('a')
    const first = await writer.append('one', 'two')
    const second = await writer.append('three')
    const head = await kit.head('a')
    assert.equal(head.seq, 3)
    assertSame(head.digest, second.digest, 'the digest of the head is that of the last run')
    assertSame(await kit.store.read(writer.id, 0, 1_000_000), [first, second], 'the runs')
  })

  test('a run of a megabyte and a run of one byte of data both survive', async (kit) => {
    const writer = await kit.create('a')
    const large = await writer.append('x'.repeat(1_500_000))
    const small = await writer.append('y')
    assertSame(await kit.store.read(writer.id, 0, 10_000_000), [large, small], 'the runs')
  })

  test('reading starts at the run that holds the next sequence, and pages by bytes with at least one run', async (kit) => {
    const writer = await kit.create('a')
    const runs = []
    for (let i = 0; i < 6; i++) runs.push(await writer.append(`${i} ${'x'.repeat(1000)}`, 'tail'))
    assertSame(await kit.store.read(writer.id, 3, 1_000_000), runs.slice(1), 'sequence 4 lies in the second run')
    assertSame(await kit.store.read(writer.id, 4, 1_000_000), runs.slice(2), 'sequence 5 starts the third run')
    assert.equal((await kit.store.read(writer.id, 12, 1_000_000)).length, 0)
    assert.equal((await kit.store.read(writer.id, 0, 1)).length, 1)
    const page = await kit.store.read(writer.id, 0, 3 * runs[0]!.bytes.length)
    assert.ok(page.length >= 2 && page.length <= 4, `about three runs fit, got ${page.length}`)
    let after = 0
    let count = 0
    for (;;) {
      const more = await kit.store.read(writer.id, after, 2500)
      if (more.length === 0) break
      for (const run of more) {
        assert.equal(run.first, after + 1)
        after = run.first + run.count - 1
        count += 1
      }
    }
    assert.equal(count, 6)
  })

  test('a missing timeline has no head, no runs, no checkpoints and no mail', async (kit) => {
    await kit.create('a')
    assert.deepEqual(await kit.store.head([asTimeline('nobody')]), [null])
    assert.deepEqual(await kit.store.read(asTimeline('nobody'), 0, 1000), [])
    assert.deepEqual(await kit.store.checkpoints(asTimeline('nobody')), [])
    assert.deepEqual((await kit.store.inbox(asTimeline('nobody'), 10)).messages, [])
  })

  test('heads are returned in the order of the request, null where missing, twice where named twice', async (kit) => {
    await kit.create('a')
    await kit.create('b')
    const heads = await kit.store.head(['b', 'x', 'a', 'b'].map(asTimeline))
    assert.deepEqual(
      heads.map((head) => head?.timeline ?? null),
      ['b', null, 'a', 'b'],
    )
    assert.deepEqual(await kit.store.head([]), [])
  })

  test('arguments are copied, and results belong to the caller', async (kit) => {
    const writer = await kit.create('a')
    const run = writer.run('one')
    const letter = message('b', 'm1', 'hello')
    const manifest = writer.manifest('c1', { seq: 0 })
    const attributes: Record<string, string> = { color: 'red' }
    const chunk = utf8('chunk')
    const digest = hash(chunk)
    const name = digest.slice()
    const before = plain({ run, letter, manifest })
    expectOk(await writer.commit({ run, send: [letter], publish: [manifest], attributes }))
    await kit.store.blobs.put([{ digest, bytes: chunk }])
    for (const bytes of [run.bytes, run.digest, letter.data, manifest.body, manifest.bodyDigest, chunk, digest]) {
      bytes.fill(0)
    }
    attributes.color = 'blue'
    const look = async () => {
      const [stored] = await kit.store.read(writer.id, 0, 1000)
      const [mail] = (await kit.store.inbox(asTimeline('b'), 1)).messages
      const [record] = await kit.store.checkpoints(writer.id)
      const [blob] = await kit.store.blobs.get([name])
      const head = await kit.head('a')
      return { stored: stored!, mail: mail!, record: record!, blob: blob!, head }
    }
    const seen = await look()
    const { sentAt: _, ...seenLetter } = seen.mail
    assertSame({ run: seen.stored, letter: seenLetter, manifest: seen.record }, before, 'stored values')
    assertSame(seen.blob, utf8('chunk'), 'the chunk')
    assert.equal(seen.head.attributes.color, 'red')
    const memory = plain(seen)
    for (const bytes of [seen.stored.bytes, seen.stored.digest, seen.mail.data, seen.record.body, seen.blob])
      bytes.fill(7)
    seen.head.digest.fill(7)
    assertSame(await look(), memory, 'stored values after the results were scribbled on')
  })
}

function guarding(test: Test): void {
  test('commits of a batch succeed or fail one by one, with outcomes in their order', async (kit) => {
    const a = await kit.create('a')
    const b = await kit.create('b')
    const stale = a.twin()
    stale.epoch = 7
    const outcomes = await kit.store.commit([
      a.plan({ run: a.run('one') }),
      stale.plan({ status: 'never' }),
      { operation: kit.operation(), guard: { timeline: asTimeline('nobody'), epoch: 1 }, status: 'never' },
      b.plan({ run: b.run('one', 'two') }),
      { operation: kit.operation(), guard: { ...b.guard, epoch: 1, seq: 0 }, status: 'never' },
    ])
    assert.equal(outcomes.length, 5)
    assert.equal(expectOk(outcomes[0]).seq, 1)
    assert.equal(expectRefused(outcomes[1], 'FENCED').head?.seq, 1)
    assert.equal(expectRefused(outcomes[2], 'NOT_FOUND').head, null)
    assert.equal(expectOk(outcomes[3]).seq, 2)
    assert.equal(expectRefused(outcomes[4], 'CONFLICT').head?.seq, 2)
    assert.equal((await kit.head('a')).status, '')
    assert.equal((await kit.head('b')).status, '')
  })

  test('later commits in a batch see earlier ones', async (kit) => {
    const writer = await kit.create('a')
    const first = writer.plan({ run: writer.run('one'), send: [message('a', 'm1')] })
    writer.accept(first)
    const second = writer.plan({ run: writer.run('two'), consume: [asMessage('m1')] })
    writer.accept(second)
    const outcomes = await kit.store.commit([first, second])
    assert.equal(expectOk(outcomes[0]).seq, 1)
    assert.equal(expectOk(outcomes[1]).seq, 2)
    assert.equal((await kit.head('a')).mail, 0)
    assert.equal((await kit.store.read(writer.id, 0, 1000)).length, 2)
  })

  test('an empty batch has no outcomes', async (kit) => {
    assert.deepEqual(await kit.store.commit([]), [])
  })

  test('G3: a commit under an older or a newer epoch is FENCED, whatever its parts', async (kit) => {
    const writer = await kit.create('a')
    await writer.append('one')
    await writer.publish('c1')
    const zombie = writer.twin()
    expectOk(await writer.take())
    await kit.send('a', 'm1')
    const before = await everything(kit, 'a', 'b')
    const attempts: Partial<Commit>[] = [
      { run: zombie.run('zombie') },
      { publish: [zombie.manifest('c2')] },
      { marks: [{ id: asManifest('c1'), verifiedAt: 5 }] },
      { drop: [asManifest('c1')] },
      { trim: { seq: 1, digest: zombie.digest, restsOn: [] } },
      { consume: [asMessage('m1')] },
      { send: [message('b', 'from-zombie')] },
      { wakeup: 5 },
      { cursors: { c: '' } },
      { attributes: { a: 1 } },
      { release: true },
      { take: { worker: zombie.worker, from: 'anyone' } },
      { branch: { archive: asTimeline('x'), seq: 0, digest: zombie.digest, floor: { seq: 0, digest: zombie.digest } } },
      { forget: true },
      { userSql: () => assert.fail('the SQL of a fenced commit is not called') },
    ]
    for (const attempt of attempts) {
      for (const epoch of [zombie.epoch, zombie.epoch + 2, 0]) {
        const commit = { ...zombie.plan(attempt), guard: { ...zombie.guard, life: zombie.life, epoch, seq: 1 } }
        const [outcome] = await kit.store.commit([commit])
        const refused = expectRefused(outcome, 'FENCED')
        assert.equal(refused.head?.epoch, 2)
      }
    }
    assertSame(await everything(kit, 'a', 'b'), before, 'nothing changed')
  })

  test('a wrong sequence in the guard is a CONFLICT, and the epoch is checked first', async (kit) => {
    const writer = await kit.create('a')
    await writer.append('one')
    const behind = writer.twin()
    behind.seq = 0
    const refused = expectRefused(await behind.commit({ run: behind.run('other') }), 'CONFLICT')
    assert.equal(refused.head?.seq, 1)
    expectRefused(await behind.commit({ status: 'x' }), 'CONFLICT')
    behind.epoch = 9
    expectRefused(await behind.commit({ status: 'x' }), 'FENCED')
    const guard = { timeline: writer.id, epoch: writer.epoch }
    expectOk((await kit.store.commit([{ operation: kit.operation(), guard, status: 'without sequence' }]))[0])
  })

  test('a cursor without a position stays unchanged', async (kit) => {
    const writer = await kit.create('a')
    expectOk(await writer.commit({ cursors: { mine: '' } }))
    const before = await kit.store.cursors()
    const leftOut = undefined as unknown as null
    expectOk(await writer.commit({ cursors: { mine: leftOut, other: leftOut } }))
    assertSame(await kit.store.cursors(), before, 'the cursors')
  })

  test('G2: a commit refused at its last part leaves no trace of the others', async (kit) => {
    const writer = await kit.create('a', { worker: 'worker-1' })
    await writer.append('one')
    await writer.publish('c1', { verifiedAt: 1 })
    await kit.send('a', 'm1')
    const other = await kit.create('owner')
    expectOk(await other.commit({ cursors: { taken: '' } }))
    const before = await everything(kit, 'a', 'b', 'owner', 'archive')
    const full = {
      take: { worker: asWorker('worker-2'), from: 'anyone' as const },
      run: writer.run('two'),
      publish: [writer.manifest('c2')],
      marks: [{ id: asManifest('c1'), label: 'marked' }],
      send: [message('b', 'm2')],
      wakeup: 1,
      queue: 'q',
      priority: 4,
      status: 's',
      attributes: { k: 'v' },
    }
    expectRefused(await writer.commit({ ...full, consume: [asMessage('m1'), asMessage('m9')] }), 'CONFLICT')
    expectRefused(
      await writer.commit({ ...full, consume: [asMessage('m1')], cursors: { mine: '', taken: '' } }),
      'CONFLICT',
    )
    expectRefused(
      await writer.commit({ ...full, drop: [asManifest('c1')], publish: [writer.manifest('c3', { seq: 99 })] }),
      'OUT_OF_RANGE',
    )
    const branch = {
      archive: asTimeline('archive'),
      seq: 0,
      digest: writer.digest,
      floor: { seq: 0, digest: writer.digest },
    }
    const { run: _, ...rest } = full
    expectRefused(await writer.commit({ ...rest, branch, publish: [], consume: [asMessage('m9')] }), 'CONFLICT')
    expectRefused(await writer.commit({ ...full, userSql: () => Promise.reject(new Error('no')) }), 'RIDER_FAILED')
    assertSame(await everything(kit, 'a', 'b', 'owner', 'archive'), before, 'nothing changed')
    expectOk(await writer.commit({ ...full, consume: [asMessage('m1')], cursors: { mine: '' } }))
    const runs = await kit.store.read(writer.id, 0, 10_000)
    assert.deepEqual(
      runs.map((run) => run.first),
      [1, 2],
      'the run is stored once, however often it was refused before',
    )
  })

  test('a shape that can never apply rejects the whole batch with INVALID_ARGUMENT', async (kit) => {
    const writer = await kit.create('a')
    const good = writer.plan({ status: 'good' })
    const guard = { timeline: writer.id, epoch: writer.epoch }
    const operation = kit.operation()
    const shapes: Commit[] = [
      { operation, guard, run: writer.run('one') },
      { operation, guard: { ...guard, seq: 0 }, run: { ...writer.run('one'), first: 2 } },
      { operation, guard, forget: true, status: 'x' },
      { operation, guard, forget: true },
      { operation, guard: { ...writer.guard }, forget: true },
      { operation, guard: null },
      { operation, guard: null, send: [message('a', 'm1')], status: 'x' },
      { operation, guard, colour: 'red' } as unknown as Commit,
    ]
    for (const shape of shapes) await expectRejection(() => kit.store.commit([good, shape]), 'INVALID_ARGUMENT')
    assert.equal((await kit.head('a')).status, '')
    assert.deepEqual(await kit.inboxIds('a'), [])
  })

  test('of many processes that append at the same sequence exactly one wins', async (kit) => {
    const writer = await kit.create('a')
    const stores = [kit.store, await kit.open(), await kit.open()]
    for (let round = 0; round < 5; round++) {
      const rivals = stores.flatMap((store) => [writer.twin(store), writer.twin(store)])
      const outcomes = await Promise.all(rivals.map((rival, i) => rival.commit({ run: rival.run(`${round} by ${i}`) })))
      assert.equal(outcomes.filter((outcome) => outcome.ok).length, 1)
      for (const outcome of outcomes) if (!outcome.ok) assert.equal(outcome.code, 'CONFLICT')
      const winner = rivals[outcomes.findIndex((outcome) => outcome.ok)]!
      writer.seq = winner.seq
      writer.digest = winner.digest
      const head = await kit.head('a')
      assert.equal(head.seq, round + 1)
      assertSame(head.digest, winner.digest, 'the head is the winner’s')
    }
  })
}

function fields(test: Test): void {
  test('a new timeline has the documented defaults', async (kit) => {
    const now = await kit.now()
    const writer = await kit.create('a')
    const head = await kit.head('a')
    assertSame(
      { ...head, createdAt: 0, updatedAt: 0, operation: null },
      {
        timeline: 'a',
        seq: 0,
        life: 1,
        epoch: 1,
        digest: writer.digest,
        owner: 'worker-1',
        isOwnerAlive: false,
        floor: 0,
        floorDigest: writer.digest,
        base: null,
        queue: null,
        priority: 0,
        status: '',
        wakeup: null,
        mail: 0,
        attributes: {},
        operation: null,
        createdAt: 0,
        updatedAt: 0,
      },
      'the head',
    )
    assert.ok(Number.isFinite(head.createdAt) && head.createdAt >= now - 1, 'made at the store’s time')
    assert.ok(head.updatedAt >= head.createdAt)
    await until(async () => (await kit.now()) > head.createdAt + 1, 'time passes')
    await writer.append('one')
    const later = await kit.head('a')
    assert.equal(later.createdAt, head.createdAt)
    assert.ok(later.updatedAt > head.createdAt, 'a commit is an update')
  })

  test('wakeup, queue, priority, status and operation are kept until they are set again; null clears', async (kit) => {
    const writer = await kit.create('a')
    const operation = kit.operation()
    expectOk(
      await writer.commit({ operation, wakeup: 1_700_000_000_123, queue: 'mail', priority: -3, status: 'waiting' }),
    )
    const head = await kit.head('a')
    assert.deepEqual(
      [head.wakeup, head.queue, head.priority, head.status, head.operation],
      [1_700_000_000_123, 'mail', -3, 'waiting', operation],
    )
    await writer.append('one')
    const later = await kit.head('a')
    assert.deepEqual(
      [later.wakeup, later.queue, later.priority, later.status],
      [1_700_000_000_123, 'mail', -3, 'waiting'],
    )
    assert.notEqual(later.operation, operation)
    expectOk(await writer.commit({ wakeup: null, queue: null, priority: 0, status: '' }))
    const cleared = await kit.head('a')
    assert.deepEqual([cleared.wakeup, cleared.queue, cleared.priority, cleared.status], [null, null, 0, ''])
  })

  test('attributes are merged, null removes one, and their types are kept', async (kit) => {
    const writer = await kit.create('a')
    expectOk(
      await writer.commit({
        attributes: { text: 'x', number: 1.5, large: 2 ** 53, isOn: true, isOff: false, gone: 1 },
      }),
    )
    expectOk(await writer.commit({ attributes: { text: '', gone: null, never: null, extra: '1' } }))
    const { attributes } = await kit.head('a')
    assertSame(
      attributes,
      { text: '', number: 1.5, large: 2 ** 53, isOn: true, isOff: false, extra: '1' },
      'attributes',
    )
  })

  test('attribute keys and values are data: quotes, dots, emoji, __proto__', async (kit) => {
    const writer = await kit.create('a')
    const attributes = Object.fromEntries([
      ["it's", 'a "quoted" \\ value'],
      ['a.b.$[0]', '%_'],
      ['🦊', '漢字 🦊'],
      ['__proto__', 'own'],
      ['constructor', 'own'],
    ])
    expectOk(await writer.commit({ attributes }))
    const head = await kit.head('a')
    assert.deepEqual(Object.entries(head.attributes).sort(), Object.entries(attributes).sort())
    for (const [key, value] of Object.entries(attributes)) {
      const found = await kit.store.timelines({ attributes: Object.fromEntries([[key, value]]), limit: 10 })
      assert.equal(found.length, 1, `found by ${key}`)
    }
    assert.equal((await kit.store.timelines({ attributes: { toString: 'x' }, limit: 10 })).length, 0)
  })
}
