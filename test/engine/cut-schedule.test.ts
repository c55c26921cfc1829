// Periodic cuts: taken by one process at a time, the newest kept, continued by another process after a death, and reported
// when they stop.

import { expect, it } from 'vitest'
import { RepriseError } from '../../src/core/errors.ts'
import type { Store } from '../../src/core/store/ports.ts'
import { modelsOf } from '../../src/engine/model/model.ts'
import { type Reprise, timeline } from '../../src/index.ts'
import { checkStore } from '../../src/operations/doctor.ts'
import { faultyStore } from '../../src/testing/faulty-store.ts'
import { until } from '../support/until.ts'
import { onEveryStore, type World } from '../support/worlds.ts'

const counter = timeline('counter', {
  initial: () => ({ total: 0 }),
  apply: (state: { total: number }, entry: { type: 'added'; by: number }) => ({ total: state.total + entry.by }),
})
const members = ['counter/a', 'counter/b']

async function begin(w: World): Promise<Reprise> {
  const rp = await w.engine()
  for (const id of ['a', 'b']) {
    const open = await rp.open(counter, id)
    await open.append({ type: 'added', by: 1 })
    await open.close()
  }
  return rp
}

async function another(w: World, ports = {}, patience = '50ms'): Promise<Reprise> {
  const rp = await w.engine({
    patience: patience as '50ms',
    ports: { isGone: ({ process }) => process === 'dying', ...ports },
  })
  for (const model of modelsOf(counter)) rp.declare(model)
  return rp
}

const pinned = async (rp: Reprise) =>
  (await rp.checkpoints('counter/a')).flatMap(({ isPinned, label }) => (isPinned ? [label] : [])).sort()
const only = async (rp: Reprise) => (await rp.groups.schedules())[0]!

onEveryStore('A3.5 a schedule of cuts', (world) => {
  it('is taken by one process at a time, keeps the newest cuts, and ends in every process', async () => {
    const w = await world()
    const [first, second] = [await begin(w), await another(w, {}, '30s')]
    const seen: string[] = []
    for (const rp of [first, second]) rp.events.on('cut-completed', ({ cut }) => seen.push(cut))
    for (const rp of [first, second]) await rp.groups.schedule('often', members, { each: '5ms', keep: 2 })
    await until(() => seen.length >= 6)
    await first.groups.endSchedule('often')
    const { status, cuts } = await only(second)
    expect({ status, count: cuts.length }).toEqual({ status: 'stopped', count: 2 })
    expect(new Set(seen).size).toBe(seen.length)
    expect(await pinned(first)).toHaveLength(2)
    await first.groups.restore({ cut: cuts[0]! })
    // A stopped schedule can be declared anew, with other values.
    await first.groups.schedule('often', members, { each: '4ms', keep: 3 })
    await until(async () => (await only(first)).cuts.length === 3)
    expect(await only(first)).toMatchObject({ status: 'running', eachMs: 4, keep: 3 })
  })

  it('continues after the death of a process in the middle of a cut, which leaves nothing behind', async () => {
    const w = await world()
    const first = await begin(w)
    await first.close()
    const store = await w.store()
    let isDead = false
    const dying: Store = {
      ...faultyStore(store, () => 'ok'),
      async commit(commits) {
        if (isDead) throw new RepriseError('BUG', 'killed')
        isDead = commits.some(({ publish }) => publish !== undefined)
        const outcomes = await store.commit(commits)
        if (isDead) throw new RepriseError('BUG', 'killed')
        return outcomes
      },
    }
    const killed = await another(w, { store: dying, identity: { host: 'here', process: 'dying' } })
    await killed.groups.schedule('hourly', members, { each: '1h' })
    await until(() => isDead)
    const rp = await another(w)
    await rp.groups.schedule('hourly', members, { each: '1h' })
    await until(async () => (await only(rp)).lastAt !== null)
    const { cuts, failures } = await only(rp)
    expect({ count: cuts.length, failures }).toEqual({ count: 1, failures: 0 })
    expect(await pinned(rp)).toEqual([`cut ${cuts[0]}`])
  })

  it('reports in doctor and in the list why no cut is taken, and resumes when the cause is gone', async () => {
    const w = await world()
    const rp = await begin(w)
    await rp.groups.capture('before', members)
    const open = await rp.open(counter, 'a')
    await open.append({ type: 'added', by: 1 })
    await open.close()
    // A member that is being restored takes part in no cut.
    const store = await w.store()
    let isCut = false
    const cutOff: Store = {
      ...faultyStore(store, () => 'ok'),
      async commit(commits) {
        if (isCut) throw new RepriseError('BUG', 'killed')
        isCut = commits.some(({ branch }) => branch !== undefined)
        if (isCut) throw new RepriseError('BUG', 'killed')
        return await store.commit(commits)
      },
    }
    const killed = await another(w, { store: cutOff, identity: { host: 'here', process: 'dying' } })
    await expect(killed.groups.restore({ cut: 'before' })).rejects.toThrow()
    const next = await another(w)
    await next.groups.schedule('often', members, { each: '20ms', keep: 1 })
    await until(async () => (await only(next)).isLate && (await only(next)).failures > 1)
    expect(await only(next)).toMatchObject({ because: expect.stringContaining('is being restored'), lastAt: null })
    const check = (await checkStore(next)).find(({ name }) => name === 'cuts')
    expect(check).toMatchObject({ state: 'bad', what: expect.stringContaining('is being restored') })
    const interrupted = (await next.groups.restores()).find(({ status }) => status === 'restoring')
    await next.groups.resume(interrupted!.id)
    await until(async () => (await only(next)).lastAt !== null)
    expect(await only(next)).toMatchObject({ failures: 0, because: null })
    await until(async () => (await next.head('group/schedule/often'))?.attributes.$failing === undefined)
  })

  it('refuses what cannot be scheduled', async () => {
    const rp = await begin(await world())
    const schedule = (options: object, ids: readonly string[] = members) =>
      rp.groups.schedule('x', ids, options as { each: '1h' })
    await expect(schedule({})).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    await expect(schedule({ each: 0 })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    await expect(schedule({ each: '1h', keep: 0 })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    await expect(schedule({ each: '1h', every: 3 })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    await expect(schedule({ each: '1h' }, [])).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
    await expect(schedule({ each: '1h' }, ['counter/none'])).rejects.toMatchObject({ code: 'NOT_FOUND' })
    await expect(rp.groups.endSchedule('none')).rejects.toMatchObject({ code: 'NOT_FOUND' })
    expect(await rp.groups.schedules()).toEqual([])
  })
})
