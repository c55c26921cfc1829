// Workers: one heartbeat each, alive by their lease on the store's clock, and never again once retired.

import assert from 'node:assert/strict'
import {
  asMessage,
  assertSame,
  asWorker,
  expectOk,
  expectRefused,
  type Kit,
  patienceMs,
  type Test,
  until,
  worker,
} from './kit.ts'

export function workerTests(test: Test): void {
  test('a heartbeat registers a worker, returns the store’s time, and stores the worker’s facts', async (kit) => {
    const record = worker('node-7#1', { info: { queues: 'a,b', runs: 3, isDraining: false }, progress: 5 })
    const { ok, now } = await kit.store.beat(record)
    assert.equal(ok, true)
    const [row] = await kit.store.workers()
    const { startedAt, beatAt, progressAt, isAlive, isRetired, isGone, ...rest } = row!
    assertSame(rest, record, 'the record')
    assert.deepEqual([isAlive, isRetired, isGone], [true, false, false])
    for (const time of [startedAt, beatAt, progressAt]) assert.ok(Math.abs(time - now) < 60_000, 'the store’s time')
  })

  test('a later heartbeat renews the lease, keeps the start, and replaces the other facts', async (kit) => {
    await kit.beat('w', { info: { a: 1 } })
    const [first] = await kit.store.workers()
    await until(
      async () => (await kit.store.beat(worker('w', { info: { b: 2 }, leaseMs: 1234 }))).now > first!.beatAt,
      'time passes',
    )
    const rows = await kit.store.workers()
    assert.equal(rows.length, 1)
    assert.equal(rows[0]!.startedAt, first!.startedAt)
    assert.ok(rows[0]!.beatAt > first!.beatAt)
    assertSame([rows[0]!.info, rows[0]!.leaseMs], [{ b: 2 }, 1234], 'its last report')
  })

  test('A7.2: progress has the time of the heartbeat that reported it; heartbeats without progress are visible', async (kit) => {
    await kit.beat('w', { progress: 1 })
    const [first] = await kit.store.workers()
    await until(async () => (await kit.store.beat(worker('w', { progress: 1 }))).now > first!.beatAt, 'time passes')
    const [stuck] = await kit.store.workers()
    assert.equal(stuck!.progressAt, first!.progressAt)
    assert.ok(stuck!.beatAt > stuck!.progressAt)
    await kit.beat('w', { progress: 2 })
    const [moved] = await kit.store.workers()
    assert.ok(moved!.progressAt > first!.progressAt)
  })

  test('a worker is alive within its lease, not after it, and again after its next heartbeat', async (kit) => {
    const isAlive = async () => (await kit.store.workers())[0]!.isAlive
    await kit.beat('w', { leaseMs: 30 })
    await until(async () => !(await isAlive()), 'the lease ends')
    assert.equal((await kit.store.workers())[0]!.isRetired, false)
    assert.equal(await kit.beat('w'), true)
    assert.equal(await isAlive(), true)
  })

  test('G3: a retired worker’s heartbeat is refused, for good', async (kit) => {
    await kit.beat('w1')
    await kit.beat('w2')
    await kit.store.retire([asWorker('w1'), asWorker('unknown')])
    assert.equal(await kit.beat('w1'), false)
    assert.equal(await kit.beat('w1', {}, await kit.open()), false)
    assert.equal(await kit.beat('w2'), true)
    const rows = (await kit.store.workers()).map((row) => [row.id, row.isAlive, row.isRetired])
    assert.deepEqual(rows.sort(), [
      ['w1', false, true],
      ['w2', true, false],
    ])
    await kit.store.retire([asWorker('w1')])
    await kit.store.retire([])
    assert.equal((await kit.store.workers()).length, 2)
  })

  test('a worker is not gone while its process runs, not even after its lease', async (kit) => {
    const other = await kit.open()
    await kit.beat('w', { leaseMs: 30 }, other)
    for (let n = 0; n < 20; n++) {
      assert.deepEqual(await goneIds(kit), [])
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
    await until(async () => !(await kit.store.workers())[0]!.isAlive, 'the lease ends')
    assert.deepEqual(await goneIds(kit), [])
  })

  test('a worker whose process was killed is gone before its lease ends, where the store can detect it', async (kit) => {
    if (!kit.capabilities.presence) return
    await kit.beat('here')
    // The store needs a moment to see a process; before that only its lease shows that it is alive.
    for (let pauseMs = 50; (await goneIds(kit)).length === 0; pauseMs *= 2) {
      assert.ok(pauseMs < patienceMs, 'the store notices that a process ended')
      const other = await kit.open()
      await kit.beat('w', {}, other)
      await new Promise((resolve) => setTimeout(resolve, pauseMs))
      await other.close()
      await new Promise((resolve) => setTimeout(resolve, pauseMs))
    }
    const rows = (await kit.store.workers()).map((row) => [row.id, row.isAlive, row.isRetired, row.isGone])
    assert.deepEqual(rows, [
      ['here', true, false, false],
      ['w', true, false, true],
    ])
    await kit.beat('w')
    await until(async () => (await goneIds(kit)).length === 0, 'it is registered again in another process')
    await kit.store.retire([asWorker('w')])
    assert.deepEqual(await goneIds(kit), [], 'a retired worker is retired, not gone')
  })

  test('retiring frees all timelines of a worker and of no other', async (kit) => {
    await kit.beat('w1')
    await kit.beat('w2')
    const a = await kit.create('a', { worker: 'w1' })
    await kit.create('b', { worker: 'w1' })
    await kit.create('c', { worker: 'w2' })
    const before = await kit.head('a')
    await kit.store.retire([asWorker('w1')])
    const owners = (await kit.store.timelines({ limit: 10 })).map((head) => [head.timeline, head.owner, head.epoch])
    assert.deepEqual(owners, [
      ['a', null, 1],
      ['b', null, 1],
      ['c', 'w2', 1],
    ])
    assert.equal((await kit.head('a')).operation, before.operation)
    expectRefused(await a.take(), 'WORKER_RETIRED')
  })
}

async function goneIds(kit: Kit): Promise<string[]> {
  return (await kit.store.workers()).filter((row) => row.isGone).map((row) => row.id)
}

export function upkeepTests(test: Test): void {
  test('tidy removes consumed messages and retired workers from before a time, and nothing else', async (kit) => {
    const writer = await kit.create('a')
    for (const id of ['m1', 'm2', 'unread']) await kit.send('a', id)
    expectOk(await writer.commit({ consume: [asMessage('m1'), asMessage('m2')] }))
    await kit.beat('gone')
    await kit.beat('here')
    await kit.store.retire([asWorker('gone')])
    const past = (await kit.now()) - 3_600_000
    assert.deepEqual(await kit.store.upkeep.tidy(past), { messages: 0, workers: 0 })
    await kit.send('a', 'm1')
    assert.deepEqual(await kit.inboxIds('a'), ['unread'])
    const future = (await kit.now()) + 3_600_000
    assert.deepEqual(await kit.store.upkeep.tidy(future), { messages: 2, workers: 1 })
    assert.deepEqual(await kit.store.upkeep.tidy(future), { messages: 0, workers: 0 })
    assert.deepEqual(await kit.inboxIds('a'), ['unread'])
    const ids = (await kit.store.workers()).map((row) => row.id as string).sort()
    assert.deepEqual(ids, ['clock', 'here'])
    await kit.send('a', 'm1')
    assert.deepEqual(await kit.inboxIds('a'), ['unread', 'm1'], 'a forgotten id is new again')
  })

  test('facts name the kind and the schema without secrets; a fresh store has no faults', async (kit) => {
    const facts = await kit.store.upkeep.facts()
    assert.ok(facts.kind.length > 0)
    assert.ok(facts.location.length > 0)
    assert.ok(Number.isInteger(facts.schemaVersion) && facts.schemaVersion >= 1)
    assert.equal(facts.isReadOnly, false)
    assert.ok(facts.sizeBytes === null || facts.sizeBytes >= 0)
    for (const value of Object.values(facts.durability)) assert.equal(typeof value, 'string')
    await populate(kit)
    assert.deepEqual(await kit.store.upkeep.inspect(), [])
  })

  test('a store notifies its subscribers of commits until they unsubscribe', async (kit) => {
    const writer = await kit.create('a')
    let calls = 0
    const stop = kit.store.listen(() => {
      calls += 1
    })
    await writer.append('one')
    await kit.send('a', 'm1')
    if (kit.capabilities.listen !== false) await until(async () => calls > 0, 'the listener is called')
    stop()
    stop()
    await writer.append('two')
    await new Promise((resolve) => setTimeout(resolve, 20))
    const callsAfterStop = calls
    await writer.append('three')
    await new Promise((resolve) => setTimeout(resolve, 20))
    assert.equal(calls, callsAfterStop)
  })

  test('a store also notifies its subscribers of commits by other processes', async (kit) => {
    if (kit.capabilities.listen === false) return
    const other = await kit.open()
    const writer = await kit.create('a', { store: other })
    let calls = 0
    const stop = kit.store.listen(() => {
      calls += 1
    })
    let n = 0
    await until(async () => {
      n += 1
      await writer.append(`entry ${n}`)
      return calls > 0
    }, 'the listener is called')
    stop()
  })

  test('commits of one process are visible to the others, also to those that open later, also after it closed', async (kit) => {
    const first = await kit.open()
    const writer = await kit.create('a', { store: first })
    const run = await writer.append('one')
    assertSame(await kit.store.read(writer.id, 0, 1000), [run], 'an open store sees it')
    await first.close()
    const later = await kit.open()
    assertSame(await later.read(writer.id, 0, 1000), [run], 'a later one too')
  })
}

async function populate(kit: Kit): Promise<void> {
  const writer = await kit.create('a')
  await writer.append('one')
  await writer.publish('c1')
  await kit.send('a', 'm1')
}
