// Mail, wakeups and claims: a message becomes part of history once, and exactly one worker claims a due timeline.

import assert from 'node:assert/strict'
import type { Commit } from '../../core/store/ports.ts'
import {
  asMessage,
  assertSame,
  asTimeline,
  asWorker,
  expectOk,
  expectRefused,
  expectRejection,
  type Kit,
  message,
  type Test,
  until,
  utf8,
} from './kit.ts'

export function inboxTests(test: Test): void {
  mail(test)
}

export function claimTests(test: Test): void {
  claiming(test)
  choosing(test)
}

function mail(test: Test): void {
  test('messages are returned oldest first, up to the limit, with their kind, data and time', async (kit) => {
    const writer = await kit.create('a')
    const before = await kit.now()
    expectOk(await writer.commit({ send: [message('b', 'z', 'first'), message('b', 'y'), message('c', 'x')] }))
    await kit.send('b', 'a')
    const { messages: all, now } = await kit.store.inbox(asTimeline('b'), 10)
    assert.deepEqual(
      all.map((one) => one.id),
      ['z', 'y', 'a'],
    )
    assert.deepEqual([all[0]!.to, all[0]!.kind], ['b', 'signal'])
    assertSame(all[0]!.data, utf8('first'), 'data')
    assert.ok(all[0]!.sentAt >= before - 1, 'sent at the store’s time')
    assert.ok(
      all.every((one) => one.sentAt <= now),
      'and read at the store’s time',
    )
    assert.deepEqual(await kit.inboxIds('b', 2), ['z', 'y'])
    assert.deepEqual(await kit.inboxIds('c'), ['x'])
  })

  test('mail to a timeline that does not exist waits for it', async (kit) => {
    await kit.send('later', 'm1')
    assert.equal(await kit.isThere('later'), false)
    assert.deepEqual(await kit.inboxIds('later'), ['m1'])
    await kit.create('later')
    assert.equal((await kit.head('later')).mail, 1)
    assert.deepEqual(await kit.inboxIds('later'), ['m1'])
  })

  test('G4: a message is consumed once, in the commit that reacts to it', async (kit) => {
    const writer = await kit.create('a')
    await kit.send('a', 'm1')
    await kit.send('a', 'm2')
    assert.equal((await kit.head('a')).mail, 2)
    expectOk(await writer.commit({ run: writer.run('m1'), consume: [asMessage('m1')] }))
    assert.equal((await kit.head('a')).mail, 1)
    assert.deepEqual(await kit.inboxIds('a'), ['m2'])
    expectRefused(await writer.commit({ run: writer.run('m1'), consume: [asMessage('m1')] }), 'CONFLICT')
    expectRefused(await writer.commit({ consume: [asMessage('m2'), asMessage('m2')] }), 'CONFLICT')
    expectRefused(await writer.commit({ consume: [asMessage('nothing')] }), 'CONFLICT')
    assert.deepEqual([(await kit.head('a')).seq, (await kit.head('a')).mail], [1, 1])
  })

  test('a commit that requires an empty inbox is refused while there is mail, and leaves no trace', async (kit) => {
    const writer = await kit.create('a')
    expectOk(await writer.commit({ run: writer.run('one'), unlessMail: true }))
    await kit.send('b', 'm0')
    await kit.send('a', 'm1')
    const ending = { unlessMail: true, status: 'ended', release: true }
    expectRefused(await writer.commit({ ...ending, run: writer.run('two') }), 'MAIL_WAITING')
    const refused = await kit.head('a')
    assert.deepEqual([refused.seq, refused.mail, refused.status], [1, 1, ''])
    assert.notEqual(refused.owner, null)
    expectOk(await writer.commit({ run: writer.run('two'), consume: [asMessage('m1')] }))
    const plan = writer.plan({ ...ending, run: writer.run('three') })
    expectOk((await kit.store.commit([plan]))[0])
    await kit.send('a', 'm2')
    const [again] = await kit.store.commit([plan])
    assert.deepEqual([again?.ok, again?.ok && again.isDuplicate], [true, true], 'applied before the mail came')
  })

  test('a timeline consumes its own mail only', async (kit) => {
    const writer = await kit.create('a')
    await kit.send('b', 'm1')
    expectRefused(await writer.commit({ consume: [asMessage('m1')] }), 'CONFLICT')
    assert.deepEqual(await kit.inboxIds('b'), ['m1'])
  })

  test('G4: a second message with the same id to the same timeline is dropped, also after consumption', async (kit) => {
    const writer = await kit.create('a')
    await kit.send('a', 'm1', 'first')
    await kit.send('a', 'm1', 'second')
    const [found] = (await kit.store.inbox(writer.id, 10)).messages
    assertSame(found!.data, utf8('first'), 'the first one counts')
    assert.equal((await kit.head('a')).mail, 1)
    expectOk(await writer.commit({ consume: [asMessage('m1')] }))
    await kit.send('a', 'm1', 'third')
    expectOk(await writer.commit({ send: [message('a', 'm1'), message('a', 'm2'), message('a', 'm2')] }))
    assert.deepEqual(await kit.inboxIds('a'), ['m2'])
    assert.equal((await kit.head('a')).mail, 1)
    await kit.send('b', 'm1')
    assert.deepEqual(await kit.inboxIds('b'), ['m1'], 'the id counts for one timeline only')
  })

  test('a commit consumes messages before it sends', async (kit) => {
    const writer = await kit.create('a')
    expectRefused(await writer.commit({ send: [message('a', 'm1')], consume: [asMessage('m1')] }), 'CONFLICT')
    assert.deepEqual(await kit.inboxIds('a'), [])
  })

  test('a commit that only sends has no guard, and reports whether any message was new', async (kit) => {
    const commit: Commit = { operation: kit.operation(), guard: null, send: [message('a', 'm1'), message('b', 'm1')] }
    assert.deepEqual(expectOk((await kit.store.commit([commit]))[0]), {
      ok: true,
      epoch: 0,
      seq: 0,
      isDuplicate: false,
    })
    assert.equal(expectOk((await kit.store.commit([commit]))[0]).isDuplicate, true)
    const more: Commit = { operation: kit.operation(), guard: null, send: [message('a', 'm1'), message('a', 'm2')] }
    assert.equal(expectOk((await kit.store.commit([more]))[0]).isDuplicate, false)
    assert.deepEqual(await kit.inboxIds('a'), ['m1', 'm2'])
  })

  test('mail does not fence its receiver, nor change its head or its last operation', async (kit) => {
    const writer = await kit.create('a')
    const before = await kit.head('a')
    await kit.send('a', 'm1')
    const after = await kit.head('a')
    assertSame({ ...after, mail: 0, updatedAt: 0 }, { ...before, updatedAt: 0 }, 'the head')
    await writer.append('one')
  })

  test('messages sent by many processes at once all arrive, once', async (kit) => {
    const stores = [kit.store, await kit.open(), await kit.open()]
    const sends = Array.from({ length: 30 }, (_, i) => {
      const commit: Commit = { operation: kit.operation(), guard: null, send: [message('a', `m${i % 15}`)] }
      return stores[i % 3]!.commit([commit])
    })
    for (const outcomes of await Promise.all(sends)) expectOk(outcomes[0])
    const ids = await kit.inboxIds('a')
    assert.equal(ids.length, 15)
    assert.equal(new Set(ids).size, 15)
    await kit.create('a')
    assert.equal((await kit.head('a')).mail, 15)
  })
}

function claiming(test: Test): void {
  test('a due timeline is claimed with a new epoch, once', async (kit) => {
    await kit.beat('worker-2')
    await resting(kit, 'a', { queue: 'q', wakeup: 1 })
    const heads = await kit.store.claim({ worker: asWorker('worker-2'), queues: ['q'], limit: 10 })
    assert.equal(heads.length, 1)
    assertSame(heads[0], await kit.head('a'), 'the head as it is after the claim')
    assert.deepEqual([heads[0]!.owner, heads[0]!.epoch, heads[0]!.isOwnerAlive], ['worker-2', 2, true])
    assert.deepEqual(await claimIds(kit, 'worker-3'), [])
  })

  test('G3: the owner before the claim is fenced by it', async (kit) => {
    const writer = await kit.create('a', { worker: 'silent' })
    expectOk(await writer.commit({ queue: 'q', wakeup: 1 }))
    assert.deepEqual(await claimIds(kit, 'worker-2'), ['a'])
    expectRefused(await writer.commit({ run: writer.run('zombie') }), 'FENCED')
  })

  test('mail makes a timeline due, with a future wakeup or none, also mail from before it existed', async (kit) => {
    const future = (await kit.now()) + 3_600_000
    await resting(kit, 'a', { queue: 'q', wakeup: future })
    await resting(kit, 'b', { queue: 'q' })
    await kit.send('early', 'm1')
    await resting(kit, 'early', { queue: 'q' })
    assert.deepEqual(await claimIds(kit, 'worker-2'), ['early'])
    await kit.send('a', 'm1')
    await kit.send('b', 'm1')
    assert.deepEqual((await claimIds(kit, 'worker-2')).sort(), ['a', 'b'])
  })

  test('timelines that are not due, have no queue, or are in another queue are not claimed', async (kit) => {
    const future = (await kit.now()) + 3_600_000
    await resting(kit, 'future', { queue: 'q', wakeup: future })
    await resting(kit, 'idle', { queue: 'q' })
    await resting(kit, 'elsewhere', { queue: 'other', wakeup: 1 })
    await resting(kit, 'nowhere', { wakeup: 1 })
    const consumed = await kit.create('consumed')
    await kit.send('consumed', 'm1')
    expectOk(await consumed.commit({ consume: [asMessage('m1')], queue: 'q', release: true }))
    assert.deepEqual(await claimIds(kit, 'worker-2'), [])
    assert.deepEqual(await kit.store.claim({ worker: asWorker('worker-2'), queues: [], limit: 10 }), [])
    const both = await kit.store.claim({ worker: asWorker('worker-2'), queues: ['q', 'other'], limit: 10 })
    assert.deepEqual(
      both.map((head) => head.timeline),
      ['elsewhere'],
    )
  })

  test('a wakeup is reached by the store’s clock', async (kit) => {
    await resting(kit, 'soon', { queue: 'q', wakeup: (await kit.now()) + 40 })
    await until(async () => (await claimIds(kit, 'worker-2')).length === 1, 'the wakeup is reached')
  })

  test('the next due time is that of the first claim: by wakeup, mail and leases', async (kit) => {
    const now = await kit.now()
    const hour = 3_600_000
    const next = (...except: string[]) => kit.store.nextDue({ queues: ['q', 'p'], except: except.map(asTimeline) })
    // A sharded store converts between the clocks of its databases, which it estimates: a minute is exact enough here.
    const assertNear = (at: number | null, expected: number) =>
      assert.ok(at !== null && Math.abs(at - expected) < 60_000, `${at} is not near ${expected}`)
    assert.equal(await next(), null)
    await resting(kit, 'elsewhere', { queue: 'other', wakeup: 1 })
    await resting(kit, 'nowhere', { wakeup: 1 })
    await resting(kit, 'idle', { queue: 'q' })
    assert.equal(await next(), null)
    await resting(kit, 'late', { queue: 'q', wakeup: now + 3 * hour, priority: 5 })
    await resting(kit, 'early', { queue: 'p', wakeup: now + 2 * hour, priority: -1 })
    await resting(kit, 'later', { queue: 'p', wakeup: now + 4 * hour })
    assertNear(await next(), now + 2 * hour)
    assertNear(await next('early'), now + 3 * hour)
    assert.equal(await kit.store.nextDue({ queues: [] }), null)
    await kit.beat('alive', { leaseMs: hour })
    const writer = await kit.create('owned', { worker: 'alive' })
    expectOk(await writer.commit({ queue: 'q', wakeup: 1 }))
    assertNear(await next(), (await kit.now()) + hour)
    assertNear(await next('owned'), now + 2 * hour)
    await kit.store.retire([asWorker('alive')])
    assertNear(await next(), 1)
    await kit.send('late', 'm1')
    assertNear(await next('owned'), 0)
  })

  test('timelines of a live worker are not claimed; those of a dead or retired one are', async (kit) => {
    await kit.beat('alive')
    await kit.beat('dying', { leaseMs: 30 })
    await kit.beat('retired')
    for (const owner of ['alive', 'dying', 'retired']) {
      const writer = await kit.create(`of ${owner}`, { worker: owner })
      expectOk(await writer.commit({ queue: 'q', wakeup: 1 }))
    }
    await kit.store.retire([asWorker('retired')])
    await until(async () => !(await kit.head('of dying')).isOwnerAlive, 'the lease ends')
    assert.deepEqual((await claimIds(kit, 'worker-2')).sort(), ['of dying', 'of retired'])
    assert.equal((await kit.head('of dying')).epoch, 2)
    assert.equal((await kit.head('of alive')).epoch, 1)
  })

  test('timelines that the caller owns are not returned, and are found by their owner', async (kit) => {
    const writer = await kit.create('a', { worker: 'worker-2' })
    expectOk(await writer.commit({ queue: 'q', wakeup: 1 }))
    await kit.send('a', 'm1')
    assert.deepEqual(await claimIds(kit, 'worker-2'), [])
    const mine = await kit.store.timelines({ owner: asWorker('worker-2'), limit: 10 })
    assert.deepEqual(
      mine.map((head) => [head.timeline, head.mail, head.epoch]),
      [['a', 1, 1]],
    )
  })

  test('a retired worker cannot claim', async (kit) => {
    await kit.beat('worker-2')
    await resting(kit, 'a', { queue: 'q', wakeup: 1 })
    await kit.store.retire([asWorker('worker-2')])
    await expectRejection(() => claimIds(kit, 'worker-2'), 'WORKER_RETIRED')
    assert.equal((await kit.head('a')).owner, null)
  })

  test('a rolled back timeline’s archive is never due', async (kit) => {
    const writer = await kit.create('a', { worker: 'silent' })
    expectOk(await writer.commit({ queue: 'q', wakeup: 1 }))
    await kit.send('a', 'm1')
    const { digest } = writer
    expectOk(await writer.commit({ branch: { archive: asTimeline('old'), seq: 0, digest, floor: { seq: 0, digest } } }))
    assert.deepEqual(await claimIds(kit, 'worker-2'), ['a'])
  })
}

function choosing(test: Test): void {
  test('the most urgent come first: higher priority, then earlier wakeup, up to the limit', async (kit) => {
    await resting(kit, 'a', { queue: 'q', wakeup: 100 })
    await resting(kit, 'b', { queue: 'q', wakeup: 50 })
    await resting(kit, 'c', { queue: 'q', wakeup: 200, priority: 5 })
    await resting(kit, 'd', { queue: 'p', wakeup: 10, priority: -1 })
    await resting(kit, 'e', { queue: 'p', wakeup: 75, priority: 5 })
    const next = async (limit: number) => {
      const heads = await kit.store.claim({ worker: asWorker('worker-2'), queues: ['q', 'p'], limit })
      return heads.map((head) => head.timeline)
    }
    assert.deepEqual(await next(0), [])
    if (kit.capabilities.isSharded) {
      const all = [...(await next(1)), ...(await next(3)), ...(await next(3)), ...(await next(3))]
      assert.deepEqual(all.sort(), ['a', 'b', 'c', 'd', 'e'])
      return
    }
    assert.deepEqual(await next(1), ['e'])
    assert.deepEqual(await next(3), ['c', 'b', 'a'])
    assert.deepEqual(await next(3), ['d'])
    assert.deepEqual(await next(3), [])
  })

  test('timelines that the caller excludes are skipped', async (kit) => {
    for (const id of ['a', 'b', 'c']) await resting(kit, id, { queue: 'q', wakeup: 1 })
    const except = ['a', 'c'].map(asTimeline)
    const heads = await kit.store.claim({ worker: asWorker('worker-2'), queues: ['q'], limit: 10, except })
    assert.deepEqual(
      heads.map((head) => head.timeline),
      ['b'],
    )
    assert.equal((await kit.head('a')).epoch, 1)
  })

  test('many workers that claim at once share the work: each timeline is claimed by one', async (kit) => {
    const ids = Array.from({ length: 24 }, (_, i) => `t${i}`)
    for (const id of ids) await resting(kit, id, { queue: 'q', wakeup: 1 })
    const stores = [kit.store, await kit.open(), await kit.open()]
    for (const i of [0, 1, 2, 3, 4, 5]) await kit.beat(`w${i}`)
    const claims: string[] = []
    const work = async (i: number) => {
      for (let round = 0; round < 3; round++) {
        const heads = await stores[i % 3]!.claim({ worker: asWorker(`w${i}`), queues: ['q'], limit: 3 })
        for (const head of heads) {
          assert.equal(head.owner, `w${i}`)
          claims.push(head.timeline)
        }
      }
    }
    await Promise.all([0, 1, 2, 3, 4, 5].map(work))
    claims.push(...(await claimIds(kit, 'w0')))
    assert.deepEqual(claims.sort(), ids.sort())
    for (const head of await kit.store.head(ids.map(asTimeline))) assert.equal(head?.epoch, 2)
  })
}

/** A timeline without an owner. */
async function resting(
  kit: Kit,
  id: string,
  parts: { readonly queue?: string; readonly wakeup?: number; readonly priority?: number },
): Promise<void> {
  const writer = await kit.create(id)
  expectOk(await writer.commit({ ...parts, release: true }))
}

async function claimIds(kit: Kit, id: string): Promise<string[]> {
  const heads = await kit.store.claim({ worker: asWorker(id), queues: ['q'], limit: 100 })
  return heads.map((head) => head.timeline)
}
