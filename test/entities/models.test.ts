// Tables, aggregates, projections and saves against plain models (a Map, an array), under crashes, takeovers, forks and a
// collector, on every store. State stores: models-stores.test.ts.

import fc from 'fast-check'
import { expect, it } from 'vitest'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { aggregate, projection } from '../../src/layers/events/index.ts'
import { save } from '../../src/layers/save/index.ts'
import { pagedTable, table } from '../../src/layers/table/index.ts'
import { onEveryStore } from '../support/worlds.ts'
import { narrow, type Plain, play, runsOf, type Subject, stepsOf, wide } from './model-play.ts'
import { collect } from './support.ts'

const parity = (text: string) => (narrow(text) % 2 ? 'odd' : 'even')
const rows = table<string>('rows', { checkpoint: { every: 7 }, indexes: { parity } })
/** So small that pages, layers and the cache turn over all the time. */
const paged = pagedTable<string>('paged', { cacheBytes: 3000, changedRows: 4, indexes: { parity } })
const log = aggregate('log', {
  initial: () => [] as readonly string[],
  evolve: { noted: (s, e: { n: number }) => [...s, wide(e.n)] },
  decide: {
    note: (_s, c: { ns: readonly number[] }) => c.ns.map((n) => ({ type: 'noted' as const, n })),
  },
  checkpoint: { every: 5 },
})
const notes = projection('notes', {
  from: [log],
  initial: () => new Map<string, readonly number[]>(),
  // In place, so that an event that counted twice, or half, would show.
  on: { noted: (m, e, at) => void m.set(at.id, [...(m.get(at.id) ?? []), e.n]) },
  checkpoint: { every: 3 },
})
const saves = save<readonly string[]>('saves', { keep: 2 })

const key = fc.integer({ min: 0, max: 12 }).map((n) => `k${n}`)
const number = fc.integer({ min: 0, max: 1000 })
const write = fc.record({ key, value: fc.option(number, { nil: undefined }) })
const writes = fc.array(write, { minLength: 1, maxLength: 4 })
const numbers = fc.array(number, { minLength: 1, maxLength: 3 })

type Writes = readonly { readonly key: string; readonly value: number | undefined }[]

const plainMap: Plain<Writes, ReadonlyMap<string, number>> = {
  initial: new Map(),
  apply(model, all) {
    const next = new Map(model)
    for (const { key: at, value } of all) value === undefined ? next.delete(at) : next.set(at, value)
    return next
  },
  view(model) {
    const sorted = [...model].sort(([a], [b]) => (a < b ? -1 : 1))
    return { rows: sorted, odd: sorted.filter(([, n]) => n % 2).map(([at]) => at) }
  },
}
const plainArray: Plain<readonly number[], readonly number[]> = {
  initial: [],
  apply: (model, ns) => [...model, ...ns],
  view: (model) => model,
}
const plainLatest: Plain<readonly number[], readonly number[] | null> = {
  initial: null,
  apply: (_model, value) => value,
  view: (model) => model,
}

const narrowRow = ([at, text]: readonly [string, string]) => [at, narrow(text)] as const

function tableSubject(id: string): Subject<Writes> {
  const openRows = (rp: Reprise) => rp.open(rows, id, { takeover: true })
  let t: Awaited<ReturnType<typeof openRows>>
  return {
    open: async (rp) => {
      t = await openRows(rp)
    },
    write: (all) =>
      t.transaction((tx) => {
        for (const { key: at, value } of all) value === undefined ? tx.delete(at) : tx.set(at, wide(value))
      }),
    checkpoint: () => t.checkpoint(),
    close: () => t.close(),
    read: () => ({ rows: [...t.entries()].map(narrowRow), odd: [...t.by('parity', 'odd')].map(([at]) => at) }),
    async fork(rp, n) {
      await rp.fork(t.coordinate, `${rows.prefix}/${id}f${n}`)
      return tableSubject(`${id}f${n}`)
    },
  }
}

function pagedSubject(id: string): Subject<Writes> {
  const openPaged = (rp: Reprise) => rp.open(paged, id, { takeover: true })
  let t: Awaited<ReturnType<typeof openPaged>>
  return {
    open: async (rp) => {
      t = await openPaged(rp)
    },
    write: (all) =>
      t.transaction((tx) => {
        for (const { key: at, value } of all) value === undefined ? tx.delete(at) : tx.set(at, wide(value))
      }),
    checkpoint: () => t.checkpoint(),
    close: () => t.close(),
    async read() {
      const found = await collect(t.entries())
      for (const [at, value] of found) expect(await t.get(at)).toBe(value)
      return { rows: found.map(narrowRow), odd: (await collect(t.by('parity', 'odd'))).map(([at]) => at) }
    },
    async fork(rp, n) {
      await rp.fork(t.coordinate, `${paged.prefix}/${id}f${n}`)
      return pagedSubject(`${id}f${n}`)
    },
  }
}

function logSubject(id: string): Subject<readonly number[]> {
  // Taken at once, so that nothing of the engine before it can still arrive.
  const openLog = (rp: Reprise) => rp.open(log, id, { takeover: true })
  let a: Awaited<ReturnType<typeof openLog>>
  let commands = 0
  return {
    open: async (rp) => {
      a = await openLog(rp)
    },
    async write(ns) {
      const options = { key: `${id}-${commands++}` }
      await Promise.all([a.do('note', { ns }, options), a.do('note', { ns }, options)])
    },
    checkpoint: () => a.checkpoint(),
    close: () => a.close(),
    // Others may have taken it over again to finish their writes.
    read: async () => (await a.refresh()).map(narrow),
    async fork(rp, n) {
      await rp.fork(a.coordinate, `${log.prefix}${id}f${n}`)
      return logSubject(`${id}f${n}`)
    },
  }
}

function projectionSubject(id: string): Subject<readonly number[]> {
  const openNotes = (rp: Reprise) => rp.open(notes)
  const openLog = (rp: Reprise) => rp.open(log, id)
  let a: Awaited<ReturnType<typeof openLog>>
  let p: Awaited<ReturnType<typeof openNotes>>
  return {
    open: async (rp) => {
      a = await openLog(rp)
      p = await openNotes(rp)
    },
    write: (ns) => a.do('note', { ns }),
    checkpoint: () => p.checkpoint(),
    close: async () => {
      await a.close()
      await p.close()
    },
    read: async () => (await p.catchUp()).get(id) ?? [],
  }
}

function saveSubject(id: string): Subject<readonly number[]> {
  const openSaves = (rp: Reprise) => rp.open(saves, id, { takeover: true })
  let s: Awaited<ReturnType<typeof openSaves>>
  return {
    open: async (rp) => {
      s = await openSaves(rp)
    },
    write: (value) => s.put(value.map(wide)),
    checkpoint: async () => undefined,
    close: () => s.close(),
    read: () =>
      s.latest().then(
        ({ value }) => value.map(narrow),
        (error) => {
          if (error.code !== 'NOT_FOUND') throw error
          return null
        },
      ),
  }
}

onEveryStore('models', (world) => {
  /** Each run of a property has an id of its own, in one world. */
  async function holds<T, Model>(
    what: fc.Arbitrary<T>,
    make: (id: string) => Subject<T>,
    plain: Plain<T, Model>,
    share = 1,
  ): Promise<void> {
    const w = await world()
    let turn = 0
    await fc.assert(
      fc.asyncProperty(stepsOf(what), (steps) => play(w, make(`r${turn++}`), steps, plain)),
      { numRuns: Math.ceil(runsOf[w.kind]! * share), endOnFailure: true },
    )
  }

  it('G1 G3: a table is a Map, whatever crashes, takes over, forks or collects in between', () =>
    holds(writes, tableSubject, plainMap))

  it('G1 G3: a table larger than its cache is a Map too, read page by page', () =>
    holds(writes, pagedSubject, plainMap))

  it('G1 G4: an aggregate is an array, each command id is done once, whatever crashes, takes over, forks or collects', () =>
    holds(numbers, logSubject, plainArray))

  it('G1 G6: a projection equals a plain loop over all events, despite crashes, takeovers and collections', () =>
    holds(numbers, projectionSubject, plainArray, 0.5))

  it('A1.2: the latest save is the last one put, whatever crashes, takes over or collects in between', () =>
    holds(fc.array(number, { maxLength: 3 }), saveSubject, plainLatest))
})
