// G20: a restore, an import, a move, a rescale or a rekey is killed at calls that write to the store (support/kill-points.ts).
// The next process to open the store then finds the change listed until it is resumed or abandoned, or finds the store as it
// was before or after the change: a half-done change never passes for a whole one.

import { join } from 'node:path'
import { expect, it } from 'vitest'
import type { Store } from '../../src/core/store/ports.ts'
import { createEngine, type EngineOptions } from '../../src/engine/api/open.ts'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { refuseUnfinished, type StoreChange } from '../../src/engine/storage/store-change.ts'
import { timeline } from '../../src/index.ts'
import { stateStore } from '../../src/layers/table/index.ts'
import { checkStore } from '../../src/operations/doctor.ts'
import { faultyStore } from '../../src/testing/index.ts'
import { temporaryFolder } from '../support/fixture.ts'
import { hostOf } from '../support/host.ts'
import { type Fate, fatesAt } from '../support/kill-points.ts'
import { onEveryStore, type World } from '../support/worlds.ts'

const folder = temporaryFolder('unfinished')

const counter = timeline('counter', {
  initial: () => ({ total: 0 }),
  apply: (state: { total: number }, entry: { type: 'added'; by: number }) => ({ total: state.total + entry.by }),
})
const names = ['a', 'b', 'c']
const newKey = { current: 'new', keys: { old: new Uint8Array(32).fill(1), new: new Uint8Array(32).fill(2) } }
const oldKey = { current: 'old', keys: { old: new Uint8Array(32).fill(1) } }

async function fill(rp: Reprise): Promise<void> {
  for (const [i, name] of names.entries()) {
    const c = await rp.open(counter, name)
    for (let n = 0; n < 3; n++) await c.append({ type: 'added', by: 10 ** i })
    await c.checkpoint()
    await c.close()
  }
}

/** The total of each counter as an application reads it; null: it does not exist, 'refused': opening it fails with the reason. */
async function seen(rp: Reprise): Promise<Record<string, number | null | 'refused'>> {
  const totals: Record<string, number | null | 'refused'> = {}
  for (const name of names) {
    try {
      const c = await rp.open(counter, name, { mustExist: true, takeover: true })
      totals[name] = c.state.total
      await c.close()
    } catch (error) {
      const { code } = error as { code?: string }
      if (code !== 'NOT_FOUND' && code !== 'CHANGE_UNFINISHED') throw error
      totals[name] = code === 'NOT_FOUND' ? null : 'refused'
    }
  }
  return totals
}

const all = { a: 3, b: 30, c: 300 }
const none = { a: null, b: null, c: null }
const writes = new Set(['commit', 'blobs.put', 'blobs.rewrite', 'rewrite', 'tidy', 'scrub', 'beat'])

/** On PostgreSQL a point costs ten times as much, and the logic under test is above the store. */
const stepOn = ({ kind }: World) => (kind === 'postgres' ? 25 : 5)

interface Change {
  readonly before: Record<string, unknown>
  readonly after: Record<string, unknown>
  readonly options?: EngineOptions
  readonly optionsBefore?: EngineOptions
  prepare(rp: Reprise): Promise<void>
  work(rp: Reprise): Promise<unknown>
  state?(rp: Reprise): Promise<Record<string, unknown>>
  /** It brings counter/a: until it has ended, no call creates an empty one. */
  readonly brings?: boolean
  /** Where a change that was killed late can only be resumed. */
  readonly mayRefuseAbandon?: boolean
}

/** Kills the process at the n-th write. False: the change was over before. */
async function killed(world: World, namespace: string, change: Change, n: number, fate: Fate) {
  const { port, isDead } = dying(await world.store(namespace), n, fate)
  const ports = { store: port, namespace, identity: { host: 'here', process: 'dead' } }
  const rp = createEngine(ports, { worker: 'killed', patience: 20, ...change.options })
  await change.work(rp).catch(() => undefined)
  const wasKilled = isDead()
  // Only its connections: the store takes nothing from it any more.
  await rp.close().catch(() => undefined)
  return wasKilled
}

function dying(store: Store, at: number, fate: Fate, counted = { count: 0 }) {
  const port = faultyStore(store, (method) => {
    if (counted.count >= at && method !== 'close') return 'fail-before'
    if (!writes.has(method)) return 'ok'
    counted.count += 1
    return counted.count === at ? fate : 'ok'
  })
  return { port, isDead: () => counted.count >= at }
}

async function next(world: World, namespace: string, change: Change): Promise<Reprise> {
  const isGone = ({ process }: { readonly process: string }) => process === 'dead'
  const rp = createEngine(
    { store: await world.store(namespace), namespace, isGone },
    { worker: 'next', ...change.options },
  )
  await hostOf(rp).kernel.deadWorkers.retireGone()
  return rp
}

/** False: nothing was left unfinished. */
async function check(rp: Reprise, change: Change, isAbandon: boolean, where: string): Promise<boolean> {
  const state = change.state ?? seen
  const changes = await rp.changes()
  const report = await rp.verify()
  expect(report.faults, where).toEqual([])
  if (changes.length === 0) {
    expect([change.before, change.after], where).toContainEqual(await state(rp))
    expect(report.ok, where).toBe(true)
    return false
  }
  expect(changes, where).toMatchObject([{ isRunning: false }])
  expect(report, where).toMatchObject({ ok: false, unfinished: changes })
  expect(
    (await checkStore(rp)).find(({ name }) => name === 'changes'),
    where,
  ).toMatchObject({ state: 'bad' })
  if (change.brings) expect([3, 'CHANGE_UNFINISHED'], where).toContain(await openedAt(rp))
  const refusal = refuseUnfinished(hostOf(rp).kernel)
  if (changes[0]!.blocks) await expect(refusal, where).rejects.toMatchObject({ code: 'CHANGE_UNFINISHED' })
  else await refusal
  const isAbandoned = isAbandon && (await abandon(rp, changes[0]!.id, change))
  if (!isAbandoned) await change.work(rp)
  expect(await rp.changes(), where).toEqual([])
  // Abandoned after its last step, when only the note was left, it is as after.
  const whole = isAbandoned ? [change.before, change.after] : [change.after]
  expect(whole, where).toContainEqual(await state(rp))
  expect(await rp.verify(), where).toMatchObject({ ok: true, faults: [], unfinished: [] })
  return true
}

async function sweep(world: World, title: string, change: Change): Promise<void> {
  let unfinished = 0
  for (let n = 1, isOver = false; !isOver; n++) {
    for (const fate of fatesAt(n, stepOn(world))) {
      const isAbandon = (n % 2 === 0) === (fate === 'fail-after')
      const namespace = `${title}-${n}-${fate}`
      const where = `killed at write ${n}, ${fate}, then ${isAbandon ? 'abandoned' : 'resumed'}`
      const first = await world.engine({ namespace, ...change.optionsBefore })
      await change.prepare(first)
      await first.close()
      if (!(await killed(world, namespace, change, n, fate))) isOver = true
      const rp = await next(world, namespace, change)
      if (await check(rp, change, isAbandon, where)) unfinished += 1
      await rp.close()
    }
  }
  // It was killed in the middle, too.
  expect(unfinished).toBeGreaterThan(2)
}

async function abandon(rp: Reprise, id: string, change: Change): Promise<boolean> {
  if (!change.mayRefuseAbandon) return (await rp.abandonChange(id)).id === id
  return await rp.abandonChange(id).then(
    () => true,
    (error) => {
      expect(['CONFLICT', 'INVALID_ARGUMENT']).toContain(error.code)
      return false
    },
  )
}

const nothing = async () => undefined

/** An application opens it with its usual options, new or not: it gets the whole store, or a refusal. */
async function openedAt(rp: Reprise): Promise<number | string> {
  try {
    const c = await rp.open(counter, 'a', { takeover: true })
    await c.close()
    return c.state.total
  } catch (error) {
    return (error as { code: string }).code
  }
}

/** Kills the process at the n-th write to one of the two stores. False: the move was over before. */
async function killedBetween(w: World, source: string, target: string, n: number, fate: Fate) {
  const counted = { count: 0 }
  const stores = [dying(await w.store(source), n, fate, counted), dying(await w.store(target), n, fate, counted)]
  const [from, to] = stores.map(({ port }, i) => {
    return createEngine(
      { store: port, namespace: [source, target][i]!, identity: { host: 'here', process: 'dead' } },
      { worker: 'killed', patience: 20 },
    )
  }) as [Reprise, Reprise]
  await from.move('counter/a', to, { takeover: true }).catch(nothing)
  const wasKilled = stores[0]!.isDead()
  await from.close().catch(nothing)
  await to.close().catch(nothing)
  return wasKilled
}

/** In the one way or the other: from whichever store has a note of it, with the other one given, or by the call itself. */
async function repeatMove(
  from: Reprise,
  to: Reprise,
  changes: { readonly from: readonly StoreChange[]; readonly to: readonly StoreChange[] },
): Promise<void> {
  const [arrival] = await to.changes()
  const [departure] = changes.from
  if (arrival) await to.resumeChange(arrival.id, { other: from })
  else if (departure) await from.resumeChange(departure.id, { other: to })
  else await from.move('counter/a', to)
}

/** False: nothing was left unfinished. */
async function checkMove(from: Reprise, to: Reprise, isAbandon: boolean, where: string): Promise<boolean> {
  const changes = { from: await from.changes(), to: await to.changes() }
  const isMoved = async () => (await from.head('counter/a'))!.status === 'moved'
  for (const change of [...changes.from, ...changes.to]) expect(change, where).toMatchObject({ total: 1 })
  if (changes.to.length === 0 && !(await to.head('counter/a'))) expect(await isMoved(), where).toBe(false)
  else expect([3, 'CHANGE_UNFINISHED'], where).toContain(await openedAt(to))
  for (const { id } of changes.to)
    await expect(to.resumeChange(id), where).rejects.toThrow(/reprise move counter\/a --to /)
  if (isAbandon) for (const { id } of changes.to) await to.abandonChange(id)
  const isThere = (await to.head('counter/a')) !== null
  if (!isAbandon || isThere) await repeatMove(from, to, changes)
  else {
    for (const { id } of changes.from) {
      await from.abandonChange(id).catch(async (error) => {
        expect(error.message, where).toMatch(/reprise move counter\/a --back/)
        await from.moveBack('counter/a', { other: to })
      })
    }
  }
  expect([await from.changes(), await to.changes()], where).toEqual([[], []])
  const places = [(await seen(from)).a, (await seen(to)).a]
  expect(isAbandon && !isThere ? [[3, null]] : [[null, 3]], where).toContainEqual(places)
  for (const rp of [from, to]) expect(await rp.verify(), where).toMatchObject({ ok: true })
  return changes.from.length + changes.to.length > 0
}

onEveryStore(
  'unfinished changes',
  (world) => {
    it('G20: a restore is never taken for whole', { timeout: 300_000 }, async () => {
      const w = await world()
      const source = await w.engine({ namespace: 'source' })
      await fill(source)
      const file = join(folder, `${w.kind}.rpb`)
      await source.backup(file)
      const work = (rp: Reprise) => rp.restore(file)
      await sweep(w, 'restore', { before: none, after: all, prepare: nothing, work })
    })

    it('G20: an import is never taken for whole', { timeout: 300_000 }, async () => {
      const w = await world()
      const source = await w.engine({ namespace: 'source' })
      await fill(source)
      const file = join(folder, `${w.kind}.reprise`)
      await source.export({ timeline: 'counter/a', seq: 3 }, file)
      const work = (rp: Reprise) => rp.import(file, { orSame: true })
      await sweep(w, 'import', { before: none, after: { ...none, a: 3 }, prepare: nothing, work, brings: true })
    })

    it('G20: an import of several timelines shows all of them or none', { timeout: 300_000 }, async () => {
      const w = await world()
      const parts = stateStore<number>('parts', { partitions: 2 })
      const source = await w.engine({ namespace: 'source' })
      const store = await source.open(parts)
      for (let i = 0; i < 6; i++) await store.set(`k${i}`, i)
      await store.close()
      const file = join(folder, `${w.kind}-family.reprise`)
      await source.move('table/parts', file)
      const heads = async (rp: Reprise) => {
        const listed = await rp.list({ prefix: 'table/parts/' })
        return { timelines: listed.map(({ timeline, status }) => `${timeline} ${status}`).sort() }
      }
      const reference = await w.engine({ namespace: 'reference' })
      await reference.import(file)
      const after = await heads(reference)
      expect(after.timelines.length).toBeGreaterThan(1)
      const work = (rp: Reprise) => rp.import(file, { orSame: true })
      await sweep(w, 'family', { before: { timelines: [] }, after, prepare: nothing, work, state: heads })
    })

    it('G20: a move is in one place or is listed', { timeout: 300_000 }, async () => {
      const w = await world()
      const state = async (rp: Reprise) => {
        const head = await rp.head('counter/a')
        return { status: head!.status === 'moved' ? 'moved' : 'here' }
      }
      await sweep(w, 'move', {
        before: { status: 'here' },
        after: { status: 'moved' },
        prepare: fill,
        work: (rp) => rp.move('counter/a', join(folder, `${w.kind}-move.reprise`), { takeover: true }),
        state,
      })
    })

    it('G20: a move to another store is in one place, and never opens empty in the other', {
      timeout: 300_000,
    }, async () => {
      const w = await world()
      let unfinished = 0
      for (let n = 1, isOver = false; !isOver; n++) {
        for (const fate of fatesAt(n, stepOn(w))) {
          const isAbandon = (n % 2 === 0) === (fate === 'fail-after')
          const where = `killed at write ${n}, ${fate}, then ${isAbandon ? 'abandoned' : 'repeated'}`
          const [source, target] = [`from-${n}-${fate}`, `to-${n}-${fate}`]
          const first = await w.engine({ namespace: source })
          await fill(first)
          await first.close()
          if (!(await killedBetween(w, source, target, n, fate))) isOver = true
          const plain: Change = { before: {}, after: {}, prepare: nothing, work: nothing }
          const [from, to] = [await next(w, source, plain), await next(w, target, plain)]
          if (await checkMove(from, to, isAbandon, where)) unfinished += 1
          await from.close()
          await to.close()
        }
      }
      expect(unfinished).toBeGreaterThan(4)
    })

    it('a move to a store that has the id is refused before anything stops', async () => {
      const w = await world()
      const [from, to] = [await w.engine({ namespace: 'from' }), await w.engine({ namespace: 'to' })]
      await fill(from)
      const other = await to.open(counter, 'a')
      await other.append({ type: 'added', by: 7 })
      await other.close()
      await expect(from.move('counter/a', to)).rejects.toMatchObject({ code: 'EXISTS' })
      expect(await from.changes()).toEqual([])
      expect(await to.changes()).toEqual([])
      expect(await seen(from)).toEqual(all)
      expect(await seen(to)).toEqual({ ...none, a: 7 })
    })

    it('G20: a rekey is listed until everything is under the new key', { timeout: 300_000 }, async () => {
      const w = await world()
      await sweep(w, 'rekey', {
        before: all,
        after: all,
        options: { keys: newKey },
        optionsBefore: { keys: oldKey },
        prepare: fill,
        work: (rp) => rp.rekey(),
      })
    })

    it('G20: a rescale is listed until it is resumed or given up', { timeout: 300_000 }, async () => {
      const w = await world()
      const counts = (partitions: number) => stateStore<number>('counts', { partitions })
      await sweep(w, 'rescale', {
        before: { rows: 5, partitions: 2 },
        after: { rows: 5, partitions: 3 },
        prepare: async (rp) => {
          const store = await rp.open(counts(2))
          for (let i = 0; i < 5; i++) await store.set(`k${i}`, i)
          await store.close()
        },
        work: (rp) => counts(3).rescale(rp),
        async state(rp) {
          for (const partitions of [2, 3]) {
            try {
              const store = await rp.open(counts(partitions), undefined, { takeover: true })
              const rows = [...store.entries()].length
              await store.close()
              return { rows, partitions }
            } catch (error) {
              if ((error as { code?: string }).code !== 'INVALID_ARGUMENT') throw error
            }
          }
          throw new Error('it opens in no number of partitions')
        },
        mayRefuseAbandon: true,
      })
    })
  },
  ['sqlite', 'postgres'],
)
