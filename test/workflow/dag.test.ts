// Declared graphs of steps: partial re-runs, backfills, and nodes that compute only what has changed.

import { expect, it } from 'vitest'
import { memo } from '../../src/layers/memo/index.ts'
import { type DagSlice, dag } from '../../src/layers/workflow/index.ts'
import { crashEverywhere } from '../../src/testing/index.ts'
import { kitWith } from './kits.ts'

/** A graph whose nodes note their calls. */
function noted(note: (what: string) => unknown) {
  const after = async <T>(what: string, value: T): Promise<T> => {
    await note(what)
    return value
  }
  return dag('etl', {
    extract: { run: (_, { day }: DagSlice) => after(`extract ${day}`, [day, 'b']) },
    rates: { run: (_, { day }) => after(`rates ${day}`, 2) },
    load: {
      after: ['clean', 'rates'],
      run: ({ clean, rates }, { day }) => after(`load ${day}`, clean.length * rates),
    },
    clean: {
      after: ['extract'],
      run: ({ extract }, { day }) => after(`clean ${day}`, extract.slice(1)),
    },
  })
}

it('C1: dag runs each node after those that it names, and a re-run repeats only what depends on a node', async () => {
  const kit = kitWith()
  const calls: string[] = []
  const etl = noted((what) => calls.push(what))
  expect(etl.order).toEqual(['extract', 'rates', 'clean', 'load'])
  const run = await kit.run(etl, { day: '2026-01-01' }, { id: '1' })
  expect(await kit.result(run)).toEqual({ extract: ['2026-01-01', 'b'], rates: 2, clean: ['b'], load: 2 })
  expect(calls.map((call) => call.split(' ')[0]).toSorted()).toEqual(['clean', 'extract', 'load', 'rates'])
  await kit.survive((rp) => kit.handle(run, rp).rerun('clean', { key: 'k' }))
  await kit.result(run)
  expect(calls.slice(4).map((call) => call.split(' ')[0])).toEqual(['clean', 'load'])
})

it('C1: a backfill runs each day and partition once, and re-runs a node in completed runs', async () => {
  const kit = kitWith()
  const calls: string[] = []
  const etl = noted((what) => calls.push(what))
  const range = { from: '2026-02-27', to: '2026-03-01', partitions: ['eu', 'us'] }
  const first = await kit.survive((rp) => etl.backfill(rp, range))
  expect(first.completed.toSorted()).toEqual(
    ['27', '28', '01'].flatMap((d) => [`eu/${of(d)}`, `us/${of(d)}`]).toSorted(),
  )
  expect(calls.length).toBe(24)
  const again = await kit.survive((rp) => etl.backfill(rp, range))
  expect([again.completed.length, again.skipped.length, calls.length]).toEqual([0, 6, 24])
  for (let i = 0; i < 2; i++) {
    const report = await kit.survive((rp) => etl.backfill(rp, { ...range, rerun: 'clean', key: 'new-rule' }))
    expect(report.completed.length).toBe(6)
  }
  expect(
    calls
      .slice(24)
      .map((call) => call.split(' ')[0])
      .toSorted(),
  ).toEqual([...Array(6).fill('clean'), ...Array(6).fill('load')])
  await expect(etl.backfill(kit.rp, { from: '2026-02-02', to: '2026-02-01' })).rejects.toMatchObject({
    code: 'INVALID_ARGUMENT',
  })

  function of(day: string): string {
    return day === '01' ? '2026-03-01' : `2026-02-${day}`
  }
})

it('C1: a node that fails is reported by the backfill, and the next backfill continues there', async () => {
  const kit = kitWith()
  let isDown = true
  let extracts = 0
  const etl = dag('fragile', {
    extract: { run: () => ++extracts },
    load: {
      after: ['extract'],
      retry: { attempts: 1 },
      run: () => (isDown ? Promise.reject(new Error('down')) : 'in'),
    },
  })
  const day = { from: '2026-01-01', to: '2026-01-01' }
  expect((await kit.survive((rp) => etl.backfill(rp, day))).failed).toEqual([{ id: '2026-01-01', why: 'down' }])
  isDown = false
  expect((await kit.survive((rp) => etl.backfill(rp, day))).completed).toEqual(['2026-01-01'])
  expect(extracts).toBe(1)
})

it('C1: async arguments of a node fail the run with their name', async () => {
  const kit = kitWith()
  const clean = memo('trim', { version: 1, run: (text: string) => text.trim() })
  const etl = dag('promised', {
    extract: { run: () => ' a ' },
    clean: { after: ['extract'], memo: clean, arguments: (async () => [' a ']) as never },
  })
  const run = await kit.run(etl, { day: '2026-01-01' }, { id: '1' })
  await expect(kit.result(run)).rejects.toThrow('arguments of clean returned a promise')
})

it('C1: a node with a memo computes only what has changed', async () => {
  const kit = kitWith()
  const computed: string[] = []
  const clean = memo('clean', { version: 1, run: (text: string) => `${computed.push(text)} ${text.trim()}` })
  const etl = dag('only-changed', {
    extract: { run: (_, { day }) => (day < '2026-01-03' ? ' same ' : ' other ') },
    clean: { after: ['extract'], memo: clean, arguments: ({ extract }) => [extract] },
  })
  await kit.survive((rp) => etl.backfill(rp, { from: '2026-01-01', to: '2026-01-04', concurrency: 1 }))
  expect(computed).toEqual([' same ', ' other '])
})

it('C1: a graph with a circle or an unknown node is refused', () => {
  const run = () => 1
  expect(() => dag('round', { a: { after: ['b'], run }, b: { after: ['a'], run } })).toThrow(/a → b → a depend/)
  expect(() => dag('loose', { a: { after: ['nothing'], run } })).toThrow(/after nothing, which is not a node/)
})

it('C1: a process that dies anywhere in a backfill repeats only calls in flight', async () => {
  const sweep = await crashEverywhere(
    async (kit) => {
      const calls: string[] = []
      const etl = noted((what) => kit.effect(() => calls.push(what)))
      kit.work(etl)
      const report = await kit.survive((rp) => etl.backfill(rp, { from: '2026-01-01', to: '2026-01-02' }))
      return { ended: [...report.completed, ...report.skipped].toSorted(), calls: [...new Set(calls)].toSorted() }
    },
    { every: 2 },
  )
  expect(sweep.undisturbed.calls.length).toBe(8)
  for (const { at, outcome } of sweep.crashes) expect(outcome, JSON.stringify(at)).toEqual(sweep.undisturbed)
}, 60_000)
