// Branching: time travel, forks, rollbacks, savepoints, and moving a timeline from one store to another.

import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { added, counter, frugal, shelf } from '../support/definitions.ts'
import { temporaryFolder } from '../support/fixture.ts'
import { onEveryStore } from '../support/worlds.ts'

const code = (expected: string) => expect.objectContaining({ code: expected })
const folder = temporaryFolder('branches')

onEveryStore('branches', (world) => {
  it('at: state as of any sequence, inside a run too, and of a coordinate', async () => {
    const w = await world()
    const rp = await w.engine()
    const c = await rp.open(counter, 'x')
    await c.append([added(1), added(2), added(3)])
    const there = c.coordinate
    await c.append(added(4))
    for (const [seq, total] of [
      [0, 0],
      [1, 1],
      [2, 3],
      [3, 6],
      [4, 10],
    ] as const) {
      expect((await rp.at(counter, 'x', { seq })).state.total).toBe(total)
    }
    expect((await rp.at(counter, 'x', there)).state.total).toBe(6)
    await expect(rp.at(counter, 'x', { seq: 5 })).rejects.toEqual(code('OUT_OF_RANGE'))
    await expect(rp.at(counter, 'x', { ...there, digest: 'ab'.repeat(32) })).rejects.toEqual(code('NOT_ON_BRANCH'))
  })

  it('believes no coordinate of another timeline or with another digest, also at the head of an open timeline', async () => {
    const rp = await (await world()).engine()
    const x = await rp.open(counter, 'x')
    await x.append([added(1), added(2)])
    const { coordinate } = x
    const forged = { ...coordinate, digest: 'f'.repeat(64) }
    const off = { code: 'NOT_ON_BRANCH' }
    await expect(rp.savepoint(forged)).rejects.toMatchObject(off)
    await expect(rp.fork(forged, 'counter/z')).rejects.toMatchObject(off)
    await expect(rp.at(counter, 'x', forged)).rejects.toMatchObject(off)
    const y = await rp.open(counter, 'y')
    await y.append([added(7), added(7)])
    await expect(rp.at(counter, 'y', coordinate)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    const elsewhere = { timeline: 'counter/x', seq: 1 }
    await expect(rp.at(counter, 'y', elsewhere)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    await expect(rp.savepoint({ ...coordinate, timeline: 'counter/y' })).rejects.toMatchObject(off)
    await x.close()
    await expect(rp.rollback({ to: forged })).rejects.toMatchObject(off)
    // The digest alone identifies the history: the epoch may be that of any owner since.
    expect((await rp.savepoint({ ...coordinate, epoch: 99 })).coordinate.digest).toBe(coordinate.digest)
    await rp.rollback({ to: { timeline: 'counter/x', seq: 1 } })
    const undone = await rp.at(counter, 'x', coordinate)
    expect([undone.state.total, (await rp.at(counter, 'x', undone.coordinate)).state.total]).toEqual([3, 3])
  })

  it('A9.1: a fork shares history, goes its own way, and neither reads the other', async () => {
    const w = await world()
    const rp = await w.engine()
    const c = await rp.open(counter, 'x')
    await c.append([added(1), added(2), added(3)])
    const inside = (await rp.at(counter, 'x', { seq: 2 })).coordinate
    await rp.fork(inside, 'y')
    await rp.fork(c.coordinate, 'counter/z')
    const [y, z] = [await rp.open(counter, 'y'), await rp.open(counter, 'z')]
    expect([y.state.total, z.state.total]).toEqual([3, 6])
    await y.append(added(100))
    await z.append(added(1000))
    await c.append(added(4))
    expect([c.state.total, y.state.total, z.state.total]).toEqual([10, 103, 1006])
    await rp.fork(y.coordinate, 'yy')
    const yy = await rp.open(counter, 'yy')
    expect(yy.state.total).toBe(103)
    expect((await rp.at(counter, 'yy', { seq: 1 })).state.total).toBe(1)
    expect((await rp.verify()).faults).toEqual([])
    await expect(rp.fork(c.coordinate, 'y')).rejects.toEqual(code('EXISTS'))
  })

  it('a fork stays with the kind of its parent, as an import under another id does', async () => {
    const rp = await (await world()).engine()
    const c = await rp.open(counter, 'x')
    await c.append(added(1))
    for (const to of ['workflow/w/order-1', 'job/x', 'table/q', 'events/account/x', 'reprise/x']) {
      await expect(rp.fork(c.coordinate, to)).rejects.toEqual(code('INVALID_ARGUMENT'))
      expect(await rp.head(to)).toBeNull()
    }
    await rp.fork(c.coordinate, 'meter/x')
  })

  it('G10: history that a fork needs is not trimmed from its parent, nor are its chunks collected', async () => {
    const w = await world()
    const rp = await w.engine()
    const f = await rp.open(frugal, 'x')
    for (let i = 0; i < 12; i++) await f.append(added(1))
    await f.checkpoint()
    await rp.fork(f.coordinate, 'forked')
    for (let i = 0; i < 40; i++) await f.append(added(1))
    await f.checkpoint()
    await rp.collect({ graceMs: -1000 })
    const forked = await rp.open(frugal, 'forked')
    expect(forked.state.total).toBe(12)
    expect((await rp.verify()).faults).toEqual([])
  })

  it('A9.2: a rollback continues on a new branch, erases nothing, and lists the effects in reverse', async () => {
    const w = await world()
    const rp = await w.engine()
    const c = await rp.open(counter, 'x')
    await c.append(added(1))
    const good = c.coordinate
    await c.effects.run('charge', ({ key }) => `paid ${key}`, { reversal: 'compensate' })
    await c.effects.run('mail', () => 'sent', { reversal: 'irreversible' })
    await c.effects.run('book', () => 'booked', { reversal: 'compensate' })
    await c.append(added(50))
    const bad = c.coordinate
    const back = await rp.rollback({ to: good })
    expect(back.effects.compensate.map(({ name }) => name)).toEqual(['book', 'charge'])
    expect(back.effects.cannot.map(({ name }) => name)).toEqual(['mail'])
    await expect(c.append(added(1))).rejects.toThrow()
    const again = await rp.open(counter, 'x')
    expect(again.state.total).toBe(1)
    const [, oldKey] = (await again.effects.run('charge', ({ key }) => `paid ${key}`)).split(' ')
    expect(back.effects.compensate.map(({ key }) => key)).not.toContain(oldKey)
    await again.append(added(2))
    expect((await rp.at(counter, 'x', bad)).state.total).toBe(51)
    expect((await rp.head(back.archive!))?.status).toBe('archived')
    const twice = await rp.rollback({ to: { timeline: 'counter/x', seq: 1 } })
    expect(twice.archive).not.toBe(back.archive)
    expect((await rp.open(counter, 'x')).state.total).toBe(1)
    expect((await rp.verify()).faults).toEqual([])
  })

  it('A9.2: an effect that ended after its intent is not requested again', async () => {
    const w = await world()
    const rp = await w.engine()
    const c = await rp.open(counter, 'x')
    let calls = 0
    await c.effects.run('charge', () => ++calls, { reversal: 'compensate' })
    const intended = (await rp.at(counter, 'x', { seq: 1 })).coordinate
    const back = await rp.rollback({ to: intended })
    expect(back.effects.carry.map(({ name }) => name)).toEqual(['charge'])
    const again = await rp.open(counter, 'x')
    expect(await again.effects.run('charge', () => ++calls)).toBe(1)
    expect(calls).toBe(1)
  })

  it('A9.2: an effect that had failed at the point, or was being undone after it, leaves a branch that opens', async () => {
    const rp = await (await world()).engine()
    const c = await rp.open(counter, 'x')
    let calls = 0
    const outside = () => {
      calls += 1
      if (calls === 1) throw new Error('no answer')
      return calls
    }
    const closed = () => {
      throw new Error('the bank is closed')
    }
    await c.effects.run('book', () => 'booked', { reversal: 'compensate' })
    await expect(c.effects.run('charge', outside)).rejects.toThrow('no answer')
    const failed = c.coordinate
    expect(await c.effects.run('charge', outside)).toBe(2)
    await expect(c.effects.compensate('book', closed)).rejects.toThrow('closed')
    const keys = c.effects.list().map(({ key }) => key)
    const back = await rp.rollback({ to: failed })
    expect(back.effects.carry.map(({ name }) => name)).toEqual(['book', 'charge'])
    const again = await rp.open(counter, 'x')
    expect(await again.effects.run('charge', outside)).toBe(2)
    expect(calls).toBe(2)
    expect(again.effects.list().map(({ outcome, key }) => [outcome, key])).toEqual(keys.map((key) => ['done', key]))
  })

  it('A9.3: a savepoint is kept until released, also below the floor of everything else', async () => {
    const w = await world()
    const rp = await w.engine()
    const f = await rp.open(frugal, 'x')
    for (let i = 0; i < 7; i++) await f.append(added(1))
    const point = await rp.savepoint(f.coordinate, { label: 'before upgrade' })
    for (let i = 0; i < 60; i++) await f.append(added(1))
    await f.checkpoint()
    expect((await rp.checkpoints('frugal/x')).find(({ id }) => id === point.id)).toMatchObject({
      label: 'before upgrade',
      isPinned: true,
    })
    expect((await rp.head('frugal/x'))!.floor).toBeLessThanOrEqual(7)
    expect((await rp.at(frugal, 'x', point.coordinate)).state.total).toBe(7)
    await rp.release('frugal/x', point.id)
    await f.append(added(1))
    await f.checkpoint()
    expect((await rp.checkpoints('frugal/x')).find(({ id }) => id === point.id)).toBeUndefined()
    expect((await rp.head('frugal/x'))!.floor).toBeGreaterThan(7)
    await expect(rp.release('frugal/x', point.id)).rejects.toEqual(code('NOT_FOUND'))
  })

  it('A9.3: a savepoint of the past is taken aside, without the handle', async () => {
    const w = await world()
    const rp = await w.engine()
    const c = await rp.open(counter, 'x')
    await c.append([added(1), added(2), added(3)])
    const { coordinate } = await rp.savepoint({ timeline: 'counter/x', seq: 2 }, { label: 'two' })
    expect(coordinate.seq).toBe(2)
    await c.append(added(4))
    expect(c.state.total).toBe(10)
    expect((await rp.drill()).ok).toBe(true)
  })

  it('A9.3: one file moves a timeline to another store, whole or state only, and a damaged file is refused', async () => {
    const [w, other] = [await world(), await world()]
    const rp = await w.engine()
    const s = await rp.open(shelf, 'x')
    await s.append(Array.from({ length: 500 }, (_, i) => ({ type: 'set' as const, key: `k${i}`, value: i })))
    await s.checkpoint()
    await s.append({ type: 'cut', key: 'k1' })
    const path = join(folder, `${w.kind}-${Math.random()}.reprise`)
    const { coordinate } = await rp.export(s.coordinate, path)
    expect(coordinate.digest).toBe(s.coordinate.digest)
    const there = await other.engine()
    expect((await there.import(path)).digest).toBe(coordinate.digest)
    const moved = await there.open(shelf, 'x')
    expect(moved.state.items.size).toBe(499)
    expect(moved.recovery.entriesReplayed).toBe(1)
    await moved.append({ type: 'set', key: 'new', value: 1 })
    await expect(there.import(path)).rejects.toEqual(code('EXISTS'))
    await there.import(path, { as: 'shelf/copy' })
    expect((await there.verify()).faults).toEqual([])

    await rp.savepoint(s.coordinate)
    await rp.export(s.coordinate, path, { stateOnly: true })
    await there.import(path, { as: 'shelf/light' })
    const light = await there.open(shelf, 'light')
    expect(light.state.items.size).toBe(499)
    expect((await there.head('shelf/light'))!.floor).toBe(501)

    const bytes = readFileSync(path)
    for (const at of [0, 20, bytes.length >> 1, bytes.length - 1]) {
      const damaged = Buffer.from(bytes)
      damaged[at]! ^= 4
      writeFileSync(path, damaged)
      await expect(there.import(path, { as: 'shelf/damaged' })).rejects.toThrow(/import|format/)
    }
    writeFileSync(path, bytes.subarray(0, bytes.length - 5))
    await expect(there.import(path, { as: 'shelf/damaged' })).rejects.toEqual(code('NOT_A_SAVEPOINT'))
    expect(await there.head('shelf/damaged')).toBeNull()
  })

  it('A9.4: a replica follows without owning, and another process can take over from where it is', async () => {
    const w = await world()
    const [a, b] = [await w.engine(), await w.engine()]
    const c = await a.open(counter, 'x')
    await c.append(added(1))
    const replica = await b.follow(counter, 'x')
    expect(replica.state.total).toBe(1)
    await c.append([added(2), added(3)])
    await replica.refresh()
    expect(replica.state.total).toBe(6)
    expect(replica.coordinate.digest).toBe(c.coordinate.digest)
    await a.rollback({ to: { timeline: 'counter/x', seq: 1 } })
    await replica.refresh()
    expect(replica.state.total).toBe(1)
    const mine = await replica.takeOver({ takeover: true })
    await mine.append(added(10))
    expect(mine.state.total).toBe(11)
    await mine.checkpoint()
    await expect(replica.refresh()).rejects.toEqual(code('CLOSED'))
    await b.close()
    expect((await (await w.engine()).open(counter, 'x')).state.total).toBe(11)
  })
})
