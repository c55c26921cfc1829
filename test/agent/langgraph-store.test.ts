// RepriseStore beside LangGraph's own InMemoryStore: the same operations, the same answers; over restarts and processes.

import { Annotation, StateGraph } from '@langchain/langgraph'
import { InMemoryStore, type Item, type MatchCondition, type Operation } from '@langchain/langgraph-checkpoint'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { RepriseSaver, RepriseStore } from '../../src/adapters/langgraph/index.ts'
import { matchesFilter } from '../../src/adapters/langgraph/store.ts'
import { onEveryStore } from '../support/worlds.ts'

const label = fc.constantFrom('a', 'b', 'users', 'é/%~')
const namespace = fc.array(label, { minLength: 1, maxLength: 3 })
const key = fc.constantFrom('k1', 'k2', 'k/3')
const value = fc.record({ n: fc.integer({ min: 0, max: 3 }), text: fc.constantFrom('x', 'y') })
const conditions: MatchCondition[][] = [
  [],
  [{ matchType: 'prefix', path: ['a'] }],
  [{ matchType: 'suffix', path: ['b'] }],
  [{ matchType: 'prefix', path: ['*', 'users'] }],
]
const operation: fc.Arbitrary<Operation> = fc.oneof(
  { weight: 5, arbitrary: fc.record({ namespace, key, value: fc.option(value, { nil: null, freq: 4 }) }) },
  { weight: 3, arbitrary: fc.record({ namespace, key }) },
  {
    weight: 2,
    arbitrary: fc.record({
      namespacePrefix: namespace,
      limit: fc.constant(1000),
      filter: fc.constantFrom({}, { n: 1 }, { n: { $gt: 1 } }, { text: 'x', n: { $lte: 2 } }, { n: { $in: [0, 3] } }),
    }),
  },
  fc.record({
    matchConditions: fc.constantFrom(...conditions),
    limit: fc.constant(1000),
    offset: fc.constant(0),
  }),
)

/** Without times, and in one order: neither is promised. */
function plain(result: unknown): unknown {
  if (Array.isArray(result)) return result.map(plain).sort((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1))
  if (typeof result !== 'object' || result === null) return result ?? null
  const { namespace: where, key: name, value: what } = result as Item
  return { where: where.join(' '), name, what }
}

describe('the long-term memory of LangGraph', () => {
  onEveryStore('C11 a store', (world) => {
    it('answers as the official one does, also from another process', async () => {
      const w = await world()
      const [first, second] = [await w.engine(), await w.engine()]
      let runs = 0
      await fc.assert(
        fc.asyncProperty(
          fc.array(fc.array(operation, { minLength: 1, maxLength: 3 }), { maxLength: 12 }),
          async (batches) => {
            const name = `run-${runs++}`
            const [one, other] = [new RepriseStore(first, { name }), new RepriseStore(second, { name })]
            const official = new InMemoryStore()
            const written = new Set<string>()
            for (const [i, batch] of batches.entries()) {
              const expected = await official.batch(batch)
              const actual = await (i % 3 === 2 ? other : one).batch(batch)
              for (const [n, each] of batch.entries()) {
                expect(plain(actual[n])).toEqual(plain(meant(each, expected[n], written)))
              }
              for (const each of batch) if ('value' in each && each.value) written.add(each.namespace.join(' '))
            }
            await one.stop()
            await other.stop()
          },
        ),
        { numRuns: 15 },
      )

      /** A prefix of theirs ends anywhere in a label, ours at its end; and they list namespaces that never had an item. */
      function meant(asked: Operation, result: unknown, written: ReadonlySet<string>): unknown {
        if ('namespacePrefix' in asked) {
          const items = result as Item[]
          return items.filter((item) => asked.namespacePrefix.every((each, i) => item.namespace[i] === each))
        }
        if ('key' in asked) return result
        return (result as string[][]).filter((each) => written.has(each.join(' ')))
      }
    })

    it("keeps a graph's memory about a user over a restart, beside the threads", async () => {
      const w = await world()
      const build = (rp: Awaited<ReturnType<typeof w.engine>>) => {
        const State = Annotation.Root({ text: Annotation<string>, seen: Annotation<number> })
        return new StateGraph(State)
          .addNode('remember', async ({ text }, { store }) => {
            const before = await store!.get(['users', '7'], 'count')
            const n = Number(before?.value.n ?? 0) + 1
            await store!.put(['users', '7'], 'count', { n, text })
            return { seen: n }
          })
          .addEdge('__start__', 'remember')
          .compile({ checkpointer: new RepriseSaver(rp), store: new RepriseStore(rp) })
      }
      const invoke = async (thread: string) =>
        await build(await w.engine()).invoke({ text: thread }, { configurable: { thread_id: thread } })
      expect(await invoke('one')).toMatchObject({ seen: 1 })
      expect(await invoke('two')).toMatchObject({ seen: 2 })
      const store = new RepriseStore(await w.engine())
      const item = await store.get(['users', '7'], 'count')
      expect(item).toMatchObject({ value: { n: 2, text: 'two' } })
      expect(item!.updatedAt.getTime()).toBeGreaterThanOrEqual(item!.createdAt.getTime())
      await store.delete(['users', '7'], 'count')
      expect(await store.get(['users', '7'], 'count')).toBeNull()
    })
  })

  onEveryStore(
    'C11 a store',
    (world) => {
      it('returns items of their own, keeps few namespaces open, and refuses unsupported calls', async () => {
        const w = await world()
        const store = new RepriseStore(await w.engine(), { openNamespacesMax: 2 })
        for (let i = 0; i < 10; i++) await store.put(['n', String(i)], 'k', { list: [i] })
        const item = (await store.get(['n', '3'], 'k'))!
        ;(item.value.list as number[]).push(99)
        expect((await store.get(['n', '3'], 'k'))!.value).toEqual({ list: [3] })
        expect(await store.search(['n'], { limit: 3, offset: 4 })).toHaveLength(3)
        expect(await store.listNamespaces({ maxDepth: 1 })).toEqual([['n']])
        await expect(store.search(['n'], { query: 'near' })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
        await expect(store.put(['a.b'], 'k', {})).rejects.toThrow(/period/)
        await expect(store.batch([{ namespace: [], key: 'k' }])).rejects.toThrow(/label/)
      })
    },
    ['memory'],
  )

  it('compares by relation, and takes an object that is none as a value', () => {
    expect(matchesFilter({ a: { b: 1 } }, { a: { b: 1 } })).toBe(true)
    expect(matchesFilter({ a: 1 }, { a: { $gt: 0, $lt: 1 } })).toBe(false)
    expect(matchesFilter({ a: 1 }, { a: { $nin: [2] } })).toBe(true)
    expect(matchesFilter({}, { toString: undefined })).toBe(true)
  })
})
