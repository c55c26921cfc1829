// Lost answers (G4): a call fails before it reaches the store or after the work was done, the caller retries with the same
// operation id, and the result is the same as without the failure.

import assert from 'node:assert/strict'
import { isReprise } from '../../core/errors.ts'
import { type Commit, feedStart, type Store } from '../../core/store/ports.ts'
import { type Fate, faultyStore } from '../faulty-store.ts'
import {
  asManifest,
  asMessage,
  assertSame,
  asTimeline,
  asWorker,
  expectOk,
  expectRejection,
  hash,
  type Kit,
  message,
  plain,
  type Test,
  utf8,
  Writer,
  wholeFeed,
  worker,
} from './kit.ts'
import { commitKinds, everythingIn, prepareForKinds } from './operations.ts'

export function lostAnswerTests(test: Test): void {
  for (const [kind, parts] of Object.entries(commitKinds)) {
    test(`G4: ${kind} whose answer was lost is applied exactly once`, async (kit) => {
      const fates: Fate[] = ['fail-before', 'fail-after', 'fail-before', 'ok']
      let step = 0
      const faulty = faultyStore(kit.store, () => fates[step++] ?? 'ok')
      const writer = await prepareForKinds(kit)
      const commit = writer.plan(parts(writer))
      const before = await everythingIn(kit, kit.store, 'a', 'b', 'old')
      await expectRejection(() => faulty.commit([commit]), 'STORE_IO')
      assertSame(await everythingIn(kit, kit.store, 'a', 'b', 'old'), before, 'the request never arrived')
      await expectRejection(() => faulty.commit([commit]), 'STORE_IO')
      const after = await everythingIn(kit, kit.store, 'a', 'b', 'old')
      assert.notDeepEqual(plain(after), plain(before), 'the work was done')
      await expectRejection(() => faulty.commit([commit]), 'STORE_IO')
      const outcome = expectOk((await faulty.commit([commit]))[0])
      assert.equal(outcome.isDuplicate, true)
      assertSame(await everythingIn(kit, kit.store, 'a', 'b', 'old'), after, 'once is once')
    })
  }

  test('G4: timelines whose claim lost its answer are found by their owner', async (kit) => {
    const writer = await kit.create('a')
    expectOk(await writer.commit({ queue: 'q', wakeup: 1, release: true }))
    const faulty = faultyStore(kit.store, (_, call) => (call === 1 ? 'fail-after' : 'ok'))
    const request = { worker: asWorker('w'), queues: ['q'], limit: 5 }
    await expectRejection(() => faulty.claim(request), 'STORE_IO')
    assert.deepEqual(await faulty.claim(request), [])
    const mine = await faulty.timelines({ owner: asWorker('w'), limit: 10 })
    assert.deepEqual(
      mine.map((head) => [head.timeline, head.epoch]),
      [['a', 2]],
    )
  })

  test('G4: whichever call of a history fails, before or after its work, a retry yields the same store', async (kit) => {
    const rehearsal = await kit.open('rehearsal')
    let callCount = 0
    const expected = await playHistory(
      kit,
      rehearsal,
      faultyStore(rehearsal, () => {
        callCount += 1
        return 'ok'
      }),
    )
    assert.ok(callCount > 15, 'the history makes many calls')
    for (const fate of ['fail-before', 'fail-after'] as const) {
      for (let failing = 1; failing <= callCount; failing++) {
        const store = await kit.open(`${fate}-${failing}`)
        const faulty = faultyStore(store, (_, call) => (call === failing ? fate : 'ok'))
        const found = await playHistory(kit, store, faulty)
        assertSame(found, expected, `${fate} at call ${failing} of ${callCount}`)
        await store.close()
      }
    }
  })
}

/** A few calls of each kind through the faulty store; each call is retried until it is answered. */
async function playHistory(kit: Kit, store: Store, faulty: Store): Promise<unknown> {
  const commit = async (commits: readonly Commit[]) => {
    for (const outcome of await insist(() => faulty.commit(commits))) expectOk(outcome)
  }
  const writer = new Writer(kit, store, 'a', 'w1')
  let count = 0
  const step = async (parts: Partial<Commit>) => {
    count += 1
    const planned = { ...writer.plan(parts), operation: `step ${count}` as Commit['operation'] }
    await commit([planned])
    writer.accept(planned)
  }
  await insist(() => faulty.beat(worker('w1')))
  await step({ take: { worker: writer.worker, from: 'free', create: { digest: writer.digest } } })
  await step({ run: writer.run('one'), send: [message('a', 'm1'), message('b', 'm2')] })
  await commit([{ operation: 'mail' as Commit['operation'], guard: null, send: [message('a', 'm3')] }])
  await step({ run: writer.run('two', 'three'), consume: [asMessage('m1')], attributes: { n: 3 } })
  await insist(() => faulty.blobs.put([{ digest: hash(utf8('chunk')), bytes: utf8('chunk') }]))
  await step({ publish: [writer.manifest('c1', { verifiedAt: 1 })] })
  await step({ run: writer.run('four') })
  await wholeFeed(store)
  const page = await insist(() => faulty.feed(feedStart, {}, 100))
  await step({ cursors: { reader: page.next } })
  await step({
    publish: [writer.manifest('c2', { verifiedAt: 1, baseId: asManifest('c1') })],
    drop: [asManifest('c1')],
  })
  const [first] = await insist(() => faulty.read(writer.id, 0, 1))
  await step({ trim: { seq: 1, digest: first!.digest, restsOn: [asManifest('c2')] } })
  const floor = { seq: 1, digest: first!.digest }
  await step({ branch: { archive: asTimeline('old'), seq: 3, digest: writer.digest, floor } })
  await step({ run: writer.run('other four'), consume: [asMessage('m3')] })
  await step({ queue: 'q', wakeup: 1, release: true })
  await insist(() => faulty.retire([asWorker('w1')]))
  const digests = [hash(utf8('chunk'))]
  const chunks = await insist(() => faulty.blobs.get(digests))
  const seen = (await everythingIn(kit, store, 'a', 'b', 'old')) as Record<string, unknown>
  return stripTimes({ ...seen, chunks })
}

async function insist<Result>(work: () => Result | Promise<Result>): Promise<Result> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work()
    } catch (error) {
      if (!isReprise(error, 'STORE_IO') || attempt === 3) throw error
    }
  }
}

/** Removes times and feed positions, which differ between worlds; everything else must be equal. */
function stripTimes(value: unknown): unknown {
  if (value instanceof Uint8Array || value === null || typeof value !== 'object') return value
  if (Array.isArray(value)) return value.map(stripTimes)
  const fields = Object.entries(value).filter(
    ([key]) => !['createdAt', 'updatedAt', 'sentAt', 'movedAt', 'position'].includes(key),
  )
  return Object.fromEntries(fields.map(([key, field]) => [key, stripTimes(field)]))
}
