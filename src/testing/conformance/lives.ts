// Lives: an id that is used again is another timeline, and nothing that was meant for the previous one reaches it.

import assert from 'node:assert/strict'
import { pastName } from '../../core/identity.ts'
import { asTimeline, expectOk, expectRefused, hash, message, type Test } from './kit.ts'

export function lifeTests(test: Test): void {
  test('A6.5: an id that is used again has the next life, and starts from the last epoch of the one before', async (kit) => {
    const first = await kit.create('a')
    await first.commit({ take: { worker: first.worker, from: 'anyone' } })
    assert.deepEqual(await lifeOf('a'), [1, 2])
    expectOk(await first.commit({ forget: true }))
    const [past] = await kit.store.past([asTimeline('a')])
    assert.deepEqual([past!.name, past!.life, past!.epoch], [pastName(hash, asTimeline('a')), 1, 2])
    await kit.create('a')
    assert.deepEqual(await lifeOf('a'), [2, 3])

    async function lifeOf(id: string): Promise<number[]> {
      const head = await kit.head(id)
      return [head.life, head.epoch]
    }
  })

  test('A6.5: an old owner that never wrote is fenced from the next life of its id', async (kit) => {
    const old = await kit.create('a')
    const zombie = old.twin()
    expectOk(await old.commit({ forget: true }))
    const next = await kit.create('a')
    expectRefused(await zombie.commit({ run: zombie.run('late') }), 'FENCED')
    expectRefused(await zombie.commit({ status: 'late' }), 'FENCED')
    await next.append('one')
    assert.equal((await kit.head('a')).seq, 1)
  })

  test('A6.5: a creation repeated after its timeline was forgotten creates nothing', async (kit) => {
    const writer = await kit.create('a')
    const { guard } = writer
    expectOk(await writer.commit({ forget: true }))
    const creation = {
      operation: kit.operation(),
      guard: { ...guard, epoch: 0 },
      take: { worker: writer.worker, from: 'free' as const, create: { digest: guard.digest } },
    }
    expectRefused((await kit.store.commit([creation]))[0]!, 'FENCED')
    expectRefused((await kit.store.commit([{ ...creation, run: writer.run('one') }]))[0]!, 'FENCED')
    assert.equal(await kit.isThere('a'), false)
  })

  test('A6.5: a forget that is repeated does not reach the next life', async (kit) => {
    const old = await kit.create('a')
    const { life } = await kit.head('a')
    const forget = { operation: kit.operation(), guard: { ...old.guard, life }, forget: true }
    expectOk((await kit.store.commit([forget]))[0])
    const next = await kit.create('a')
    await next.append('one')
    const again = expectOk((await kit.store.commit([forget]))[0])
    assert.equal(again.isDuplicate, true)
    assert.equal((await kit.head('a')).seq, 1)
  })

  test('A6.5: a forget may be refused while there is unread mail', async (kit) => {
    const writer = await kit.create('a')
    const { life } = await kit.head('a')
    expectOk((await kit.store.commit([{ operation: kit.operation(), guard: null, send: [message('a', 'm1')] }]))[0])
    const forget = () => ({
      operation: kit.operation(),
      guard: { ...writer.guard, life },
      forget: true,
      unlessMail: true,
    })
    expectRefused((await kit.store.commit([forget()]))[0]!, 'MAIL_WAITING')
    assert.deepEqual(await kit.inboxIds('a'), ['m1'])
    expectOk(await writer.commit({ consume: [message('a', 'm1').id] }))
    expectOk((await kit.store.commit([forget()]))[0])
    assert.equal(await kit.isThere('a'), false)
  })

  test('a guard with another life is FENCED', async (kit) => {
    const writer = await kit.create('a')
    const commit = (life: number) => ({ operation: kit.operation(), guard: { ...writer.guard, life }, status: 'x' })
    expectRefused((await kit.store.commit([commit(2)]))[0]!, 'FENCED')
    expectOk((await kit.store.commit([commit(1)]))[0])
  })

  test('a timeline is created only with the expected life', async (kit) => {
    const writer = await kit.create('a')
    expectOk(await writer.commit({ forget: true }))
    const { digest } = kit.writerOf('a')
    const make = (life: number) => ({
      operation: kit.operation(),
      guard: { timeline: writer.id, epoch: 1, seq: 0, digest },
      take: { worker: writer.worker, from: 'free' as const, create: { digest, life } },
    })
    expectRefused((await kit.store.commit([make(1)]))[0]!, 'FENCED')
    expectRefused((await kit.store.commit([make(3)]))[0]!, 'FENCED')
    expectOk((await kit.store.commit([make(2)]))[0])
    assert.equal((await kit.head('a')).life, 2)
  })

  test('mail to a life reaches that life only', async (kit) => {
    const writer = await kit.create('a')
    const sender = await kit.create('b')
    const to = (life: number, id: string) => ({ ...message('a', id), life })
    const mail = (life: number, id: string) => ({ operation: kit.operation(), guard: null, send: [to(life, id)] })
    expectOk((await kit.store.commit([mail(1, 'm1')]))[0])
    expectRefused((await kit.store.commit([mail(2, 'm2')]))[0]!, 'NOT_FOUND')
    expectOk(await writer.commit({ forget: true }))
    expectRefused((await kit.store.commit([mail(1, 'm3')]))[0]!, 'NOT_FOUND')
    await kit.create('a')
    expectRefused((await kit.store.commit([mail(1, 'm4')]))[0]!, 'NOT_FOUND')
    // A commit of a sender with its own timeline succeeds: the message without a reader is dropped.
    expectOk(await sender.commit({ send: [to(1, 'm5'), to(2, 'm6')] }))
    assert.deepEqual(await kit.inboxIds('a'), ['m6'])
  })

  test('an erased id leaves no name, and every new id starts above its life', async (kit) => {
    const writer = await kit.create('a')
    expectOk(await writer.commit({ forget: 'erase' }))
    const name = pastName(hash, asTimeline('a'))
    assert.equal(
      (await kit.store.upkeep.pasts(null, 100)).some((past) => past.name === name),
      false,
    )
    await kit.create('a')
    assert.equal((await kit.head('a')).life, 2)
  })

  test('an id that was forgotten and then erased leaves no name either, and starts above both lives', async (kit) => {
    expectOk(await (await kit.create('a')).commit({ forget: true }))
    expectOk(await (await kit.create('a')).commit({ forget: 'erase' }))
    assert.deepEqual(
      (await kit.store.upkeep.pasts(null, 100)).map((past) => past.name),
      [''],
    )
    await kit.create('a')
    assert.equal((await kit.head('a')).life, 3)
  })

  test('a copy takes over life and epoch', async (kit) => {
    const { id, worker, digest } = kit.writerOf('a')
    const copyOf = { life: 5, epoch: 7 }
    const take = { worker, from: 'free' as const, create: { digest, copyOf } }
    expectOk((await kit.store.commit([{ operation: kit.operation(), guard: { timeline: id, epoch: 7 }, take }]))[0])
    const head = await kit.head('a')
    assert.deepEqual([head.life, head.epoch], [5, 8])
  })

  test('lives of imported timelines are stored, and never lowered', async (kit) => {
    const name = pastName(hash, asTimeline('a'))
    await kit.store.upkeep.recall([{ name, life: 4, epoch: 9, forgottenAt: 1 }])
    await kit.store.upkeep.recall([{ name, life: 2, epoch: 3, forgottenAt: 2 }])
    await kit.create('a')
    const head = await kit.head('a')
    assert.deepEqual([head.life, head.epoch], [5, 10])
    const listed = await kit.store.upkeep.pasts(null, 100)
    assert.deepEqual(
      listed.map((past) => [past.name, past.life, past.epoch]),
      [[name, 4, 9]],
    )
  })

  test('tidy removes old lives, and new ids start above the highest of them', async (kit) => {
    const name = pastName(hash, asTimeline('a'))
    await kit.store.upkeep.recall([{ name, life: 4, epoch: 9, forgottenAt: 1 }])
    await kit.store.upkeep.tidy(await kit.now())
    assert.deepEqual(
      (await kit.store.upkeep.pasts(null, 100)).filter((past) => past.name === name),
      [],
    )
    await kit.create('a')
    await kit.create('b')
    assert.deepEqual([(await kit.head('a')).life, (await kit.head('b')).life], [5, 5])
  })

  test('a rollback keeps the life', async (kit) => {
    const first = await kit.create('a')
    expectOk(await first.commit({ forget: true }))
    const writer = await kit.create('a')
    await writer.append('one')
    const { seq, digest } = writer
    const floor = { seq: 0, digest: (await kit.head('a')).floorDigest }
    expectOk(await writer.commit({ branch: { archive: asTimeline('a~1'), seq, digest, floor } }))
    assert.deepEqual([(await kit.head('a')).life, (await kit.head('a~1')).life], [2, 2])
  })
}
