import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { Keyed, type KeyedRange, keyed } from './keyed.ts'

/** The reference behaviour of Keyed. */
class Model {
  readonly map = new Map<string, number>()

  entries(range: KeyedRange = {}): [string, number][] {
    const { from = '', to, prefix = '', reverse = false, limit = Number.POSITIVE_INFINITY } = range
    const all = [...this.map]
      .filter(([key]) => key >= from && (to === undefined || key < to) && key.startsWith(prefix))
      .sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0))
    if (reverse) all.reverse()
    return all.slice(0, limit)
  }
}

const key = fc.oneof(
  fc.string({ maxLength: 3 }),
  fc.string({ unit: 'binary', maxLength: 2 }),
  fc.nat(3000).map((n) => `k${n}`),
  fc.constantFrom('', '__proto__', 'constructor', '\ud800', '\udfff', '\uffff', '\uffff\uffff'),
)

const range = fc.record<KeyedRange>(
  { from: key, to: key, prefix: fc.oneof(key, fc.constant('k1')), reverse: fc.boolean(), limit: fc.nat(50) },
  { requiredKeys: [] },
)

type Step =
  | { readonly kind: 'set' | 'delete'; readonly key: string; readonly value: number }
  | { readonly kind: 'fill' | 'thin'; readonly from: number; readonly count: number; readonly stride: number }
  | { readonly kind: 'snapshot' | 'clear' }
  | { readonly kind: 'read'; readonly range: KeyedRange }

const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ kind: fc.constantFrom('set', 'delete'), key, value: fc.nat() }) },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constantFrom('fill', 'thin'),
      from: fc.nat(3000),
      count: fc.nat(1500),
      stride: fc.integer({ min: 1, max: 7 }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('snapshot') }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('read'), range }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('clear') }) },
)

function apply(to: Pick<Map<string, number>, 'set' | 'delete' | 'clear'>, change: Step): void {
  switch (change.kind) {
    case 'set':
      to.set(change.key, change.value)
      break
    case 'delete':
      to.delete(change.key)
      break
    case 'clear':
      to.clear()
      break
    case 'fill':
      for (let i = 0; i < change.count; i++) to.set(`k${change.from + i * change.stride}`, i)
      break
    case 'thin':
      for (let i = 0; i < change.count; i++) to.delete(`k${change.from + i * change.stride}`)
      break
  }
}

describe('Keyed', () => {
  test('behaves like a Map with sorted keys, and snapshots stay as they were', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 30 }), (steps) => {
        const model = new Model()
        const map = keyed<number>()
        const frozen: { readonly view: Keyed<number>; readonly as: [string, number][] }[] = []
        for (const change of steps) {
          apply(model.map, change)
          apply(map as unknown as Map<string, number>, change)
          if (change.kind === 'snapshot') frozen.push({ view: map.snapshot(), as: model.entries() })
          if (change.kind === 'read') {
            expect([...map.entries(change.range)]).toEqual(model.entries(change.range))
          }
          expect(map.size).toBe(model.map.size)
        }
        expect([...map]).toEqual(model.entries())
        for (const [name, value] of model.map) expect(map.get(name)).toBe(value)
        for (const { view, as } of frozen) {
          expect([...view]).toEqual(as)
          expect(view.size).toBe(as.length)
        }
      }),
      { numRuns: 200 },
    )
  })

  test('a snapshot may be changed without the original noticing', () => {
    const map = keyed([['a', 1]])
    const copy = map.snapshot()
    copy.set('a', 2).set('b', 3)
    map.delete('a')
    expect([...map]).toEqual([])
    expect([...copy]).toEqual([
      ['a', 2],
      ['b', 3],
    ])
  })

  test('an undefined value exists, a missing key does not', () => {
    const map = keyed<undefined>([['here', undefined]])
    expect([map.has('here'), map.has('gone')]).toEqual([true, false])
  })

  test('an iteration survives changes: each key at most once, in order, and all that stayed', () => {
    fc.assert(
      fc.property(fc.boolean(), fc.integer({ min: 2, max: 9 }), (reverse, every) => {
        const map = keyed(Array.from({ length: 3000 }, (_, i): [string, number] => [`k${i}`, i]))
        const kept = [...map.keys()].filter((_, i) => i % every !== 0)
        const gone = [...map.keys()].filter((_, i) => i % every === 0)
        const seen: string[] = []
        for (const name of map.keys({ reverse })) {
          seen.push(name)
          const victim = gone.pop()
          if (victim !== undefined) map.delete(victim)
          map.set(`${reverse ? 'z' : 'a'}${name}`, 0)
          if (!name.endsWith('+')) map.set(`${name}+`, 0)
        }
        const sorted = [...new Set(seen)].sort((a, b) => (a < b ? -1 : 1))
        expect(seen).toEqual(reverse ? sorted.reverse() : sorted)
        const reached = new Set(seen)
        expect(kept.filter((name) => !reached.has(name))).toEqual([])
      }),
      { numRuns: 4 },
    )
  })

  test('a key that is not text is refused', () => {
    expect(() => keyed<number>().set(1 as unknown as string, 1)).toThrow(/text/)
  })

  test('names the keys that changed since the last capture, until there are too many to name', () => {
    const map = keyed(Array.from({ length: 20_000 }, (_, i): [string, number] => [`k${i}`, i]))
    const tree = Keyed.treeOf(map)
    expect(tree.takeChanged()).toBe(null)
    map.set('k1', -1).set('k2', 2).delete('k3')
    expect([...tree.takeChanged()!].sort()).toEqual(['k1', 'k3'])
    for (let i = 0; i < 10_000; i++) map.set(`k${i}`, -i - 2)
    expect(tree.takeChanged()?.size).toBe(10_000)
    for (let i = 0; i < 10_001; i++) map.set(`k${i}`, -i - 3)
    expect(tree.takeChanged()).toBe(null)
  })

  test('changes that did not reach a checkpoint are handed over again', () => {
    const tree = Keyed.treeOf(keyed([['a', 1]]))
    tree.takeChanged()
    tree.set('a', 2)
    const lost = tree.takeChanged()
    tree.set('b', 1)
    tree.returnChanged(lost)
    expect([...tree.takeChanged()!].sort()).toEqual(['a', 'b'])
  })

  test('keys that arrive in order fill their pages', () => {
    const map = keyed(Array.from({ length: 5120 }, (_, i): [string, number] => [String(i).padStart(6, '0'), i]))
    expect(Keyed.treeOf(map).pageCount).toBe(10)
  })
})
