// State stores against a plain Map with the offset it was read up to, under crashes, takeovers (cold, or by a standby that
// followed) and a collector, on every store. A standby that looks on from another process sees the same.

import fc from 'fast-check'
import { expect, it } from 'vitest'
import type { Reprise } from '../../src/engine/api/reprise.ts'
import { type StoreDefinition, stateStore, type TableHandle, type TableStandby } from '../../src/layers/table/index.ts'
import { onEveryStore } from '../support/worlds.ts'
import { narrow, type Plain, play, runsOf, type Subject, stepsOf, wide } from './model-play.ts'

const partitions = 3
const write = fc.record({
  key: fc.integer({ min: 0, max: 12 }).map((n) => `k${n}`),
  value: fc.option(fc.integer({ min: 0, max: 1000 }), { nil: undefined }),
})

type Write = { readonly key: string; readonly value: number | undefined }

interface Model {
  readonly rows: ReadonlyMap<string, number>
  /** How many writes each partition has seen. */
  readonly offsets: readonly number[]
}

function plainOf(store: StoreDefinition<string>): Plain<Write, Model> {
  return {
    initial: { rows: new Map(), offsets: Array<number>(partitions).fill(0) },
    apply({ rows, offsets }, { key, value }) {
      const next = new Map(rows)
      value === undefined ? next.delete(key) : next.set(key, value)
      const partition = store.partitionOf(key)
      return { rows: next, offsets: offsets.map((n, p) => (p === partition ? n + 1 : n)) }
    },
    view: ({ rows, offsets }) => ({ rows: [...rows].sort(([a], [b]) => (a < b ? -1 : 1)), offsets }),
  }
}

interface Partition {
  entries(): Iterable<[string, string]>
  offset(source: string): string | number | undefined
}

const told = (tables: readonly Partition[]) => ({
  rows: tables
    .flatMap((t) => [...t.entries()].map(([key, text]) => [key, narrow(text)] as const))
    .sort(([a], [b]) => (a < b ? -1 : 1)),
  offsets: tables.map((t) => Number(t.offset('source') ?? 0)),
})

/** `watcher` is a process that only reads. */
function storeSubject(store: StoreDefinition<string>, watcher: Reprise): Subject<Write> {
  let tables: TableHandle<string>[] = []
  let standbys: TableStandby<string>[] = []
  const openOne = async (rp: Reprise, partition: number) => {
    // The first time there is nothing to follow yet; from then on every other one is taken over by a standby.
    if (standbys.length === 0 || partition % 2) return await store.partition(rp, partition, { takeover: true })
    return await (await store.standby(rp, partition)).takeOver()
  }
  const every = Array.from({ length: partitions }, (_, partition) => partition)
  return {
    async open(rp) {
      const opened: TableHandle<string>[] = []
      for (const partition of every) opened.push(await openOne(rp, partition))
      tables = opened
      if (standbys.length === 0)
        standbys = await Promise.all(every.map((partition) => store.standby(watcher, partition)))
    },
    write: ({ key, value }) =>
      tables[store.partitionOf(key)]!.transaction((tx) => {
        value === undefined ? tx.delete(key) : tx.set(key, wide(value))
        tx.advance('source', Number(tx.offset('source') ?? 0) + 1)
      }),
    checkpoint: () => Promise.all(tables.map((t) => t.checkpoint())),
    close: () => Promise.all(tables.map((t) => t.close())),
    async read() {
      const seen = told(tables)
      await Promise.all(standbys.map((standby) => standby.refresh()))
      expect(told(standbys)).toEqual(seen)
      return seen
    },
  }
}

onEveryStore('models of state stores', (world) => {
  it('B4 A9.4 G3: a state store and its offsets equal a Map and a count, despite crashes, takeovers and collections', async () => {
    const w = await world()
    const watcher = await w.engine()
    let turn = 0
    await fc.assert(
      fc.asyncProperty(stepsOf(write), async (steps) => {
        const store = stateStore<string>(`counts${turn++}`, {
          ...{ partitions, checkpoint: { every: 5 } },
          retain: { checkpoints: 2, history: 'needed' },
        })
        await play(w, storeSubject(store, watcher), steps, plainOf(store))
      }),
      { numRuns: runsOf[w.kind]!, endOnFailure: true },
    )
  })
})
