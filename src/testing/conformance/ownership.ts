// Ownership: which worker may take a timeline, and from which owner; each take is a new epoch.

import assert from 'node:assert/strict'
import { asWorker, expectOk, expectRefused, type Test, until, Writer } from './kit.ts'

export function ownershipTests(test: Test): void {
  test('each take makes a new epoch and sets the owner; a release keeps the epoch', async (kit) => {
    await kit.beat('worker-1')
    const writer = await kit.create('a')
    const taken = await kit.head('a')
    assert.deepEqual([taken.epoch, taken.owner, taken.isOwnerAlive], [1, 'worker-1', true])
    const again = expectOk(await writer.take({ from: 'free' }))
    assert.equal(again.epoch, 2, 'its own counts as free')
    expectOk(await writer.commit({ release: true }))
    const free = await kit.head('a')
    assert.deepEqual([free.epoch, free.owner, free.isOwnerAlive], [2, null, false])
    const other = new Writer(kit, kit.store, 'a', 'worker-2')
    other.epoch = 2
    assert.equal(expectOk(await other.take({ from: 'free' })).epoch, 3)
    assert.equal((await kit.head('a')).owner, 'worker-2')
  })

  test('a timeline of a live worker is OWNED for `free` and `dead`; `anyone` takes it', async (kit) => {
    await kit.beat('worker-1')
    await kit.create('a')
    const other = new Writer(kit, kit.store, 'a', 'worker-2')
    other.epoch = 1
    assert.equal(expectRefused(await other.take({ from: 'free' }), 'OWNED').head?.owner, 'worker-1')
    expectRefused(await other.take({ from: 'dead' }), 'OWNED')
    expectOk(await other.take({ from: 'anyone' }))
  })

  test('a timeline of a dead worker is OWNED for `free`; `dead` takes it', async (kit) => {
    await kit.beat('worker-1', { leaseMs: 30 })
    await kit.create('a')
    await until(async () => !(await kit.head('a')).isOwnerAlive, 'the lease of worker-1 ends')
    assert.equal((await kit.head('a')).owner, 'worker-1')
    const other = new Writer(kit, kit.store, 'a', 'worker-2')
    other.epoch = 1
    expectRefused(await other.take({ from: 'free' }), 'OWNED')
    assert.equal(expectOk(await other.take({ from: 'dead' })).epoch, 2)
  })

  test('a worker with a heartbeat after its lease is alive again', async (kit) => {
    await kit.beat('worker-1', { leaseMs: 30 })
    await kit.create('a')
    await until(async () => !(await kit.head('a')).isOwnerAlive, 'the lease of worker-1 ends')
    await kit.beat('worker-1')
    assert.equal((await kit.head('a')).isOwnerAlive, true)
    const other = new Writer(kit, kit.store, 'a', 'worker-2')
    other.epoch = 1
    expectRefused(await other.take({ from: 'dead' }), 'OWNED')
  })

  test('an owner without any heartbeat is dead', async (kit) => {
    await kit.create('a', { worker: 'silent' })
    assert.equal((await kit.head('a')).isOwnerAlive, false)
    const other = new Writer(kit, kit.store, 'a', 'worker-2')
    other.epoch = 1
    expectRefused(await other.take({ from: 'free' }), 'OWNED')
    expectOk(await other.take({ from: 'dead' }))
  })

  test('a retired worker takes nothing, and its timelines are free', async (kit) => {
    await kit.beat('worker-1')
    const writer = await kit.create('a')
    await kit.store.retire([asWorker('worker-1')])
    const head = await kit.head('a')
    assert.deepEqual([head.owner, head.isOwnerAlive, head.epoch], [null, false, 1])
    expectRefused(await writer.take({ from: 'anyone' }), 'WORKER_RETIRED')
    const other = new Writer(kit, kit.store, 'a', 'worker-2')
    other.epoch = 1
    expectOk(await other.take({ from: 'free' }))
  })

  test('a commit with a take is written under the new epoch, and may release it at once', async (kit) => {
    const writer = await kit.create('a')
    const run = writer.run('guest')
    const outcome = expectOk(
      await writer.commit({ take: { worker: asWorker('guest'), from: 'anyone' }, run, release: true }),
    )
    assert.deepEqual([outcome.epoch, outcome.seq], [2, 1])
    const head = await kit.head('a')
    assert.deepEqual([head.epoch, head.seq, head.owner], [2, 1, null])
  })

  test('of many processes that take the same epoch exactly one wins', async (kit) => {
    const writer = await kit.create('a')
    const stores = [kit.store, await kit.open(), await kit.open()]
    const outcomes = await Promise.all(
      [0, 1, 2, 3, 4, 5].map((i) => {
        const rival = new Writer(kit, stores[i % 3]!, 'a', `rival-${i}`)
        rival.epoch = writer.epoch
        return rival.take({ from: 'anyone' })
      }),
    )
    assert.equal(outcomes.filter((outcome) => outcome.ok).length, 1)
    for (const outcome of outcomes) if (!outcome.ok) assert.equal(outcome.code, 'FENCED')
    assert.equal((await kit.head('a')).epoch, 2)
  })
}
