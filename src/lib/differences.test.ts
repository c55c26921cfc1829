import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { Codec } from '../core/codec/codec.ts'
import { keyed } from '../core/keyed-state/keyed.ts'
import { differences, isEqual, kindOf } from './differences.ts'

class Money {
  readonly #cents: number
  constructor(cents: number) {
    this.#cents = cents
  }
  get cents(): number {
    return this.#cents
  }
}
const codec = new Codec({
  classes: [
    {
      name: 'money',
      type: Money,
      encode: (value) => (value as Money).cents,
      decode: (data) => new Money(data as number),
    },
  ],
})
const dataOf = (value: object) => codec.dataOf(value)

/** Several different values for each type of the codec. */
const leaves: readonly unknown[] = [
  ...[undefined, null, true, false, 0, -0, 1, 0.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53],
  ...['', '0', 'a', 'null', 'Infinity', '\ud800', 0n, 1n, -1n, 2n ** 70n],
  ...[new Date(0), new Date(1), new Date(Number.NaN), new Date(0).toISOString()],
  ...[/a/, /a/g, /b/],
  ...[new Uint8Array(0), new Uint8Array([1]), new Uint8Array([2]), new Uint8Array([1, 0]), new Uint8Array(100)],
  ...[new Uint8ClampedArray([1]), new Int8Array([1]), new Uint16Array([1]), new Int16Array([1]), new Uint32Array([1])],
  ...[new Int32Array([1]), new Float32Array([1]), new Float64Array([1]), new Float64Array([2])],
  ...[new BigInt64Array([1n]), new BigUint64Array([1n]), new BigUint64Array([2n])],
  ...[new Uint8Array([1]).buffer, new Uint8Array([2]).buffer],
  ...[new DataView(new Uint8Array([1]).buffer), new DataView(new Uint8Array([2]).buffer)],
  ...[new Error('a'), new Error('b'), new TypeError('a'), new RangeError('a'), new AggregateError([1], 'a')],
  ...[new AggregateError([2], 'a'), new Error('a', { cause: 1 }), new Error('a', { cause: 2 })],
  ...[Object.assign(new Error('a'), { code: 1 }), Object.assign(new Error('a'), { name: 'Other' })],
  ...[new Money(1), new Money(2)],
  ...[{}, [], new Map(), new Set(), keyed()],
]

/** Puts a value into each kind of container. */
const containers: readonly ((value: unknown) => unknown)[] = [
  (value) => ({ other: 1, value }),
  (value) => ({ ['__proto__']: 1, 'a.b': { '': value } }),
  (value) => [0, value],
  (value) => {
    const sparse: unknown[] = []
    sparse[7] = value
    sparse.length = 9
    return sparse
  },
  (value) => new Map([['key', value]]),
  (value) => new Map([[value, 'value']]),
  (value) => new Map([[{ id: 1 }, value]]),
  (value) => new Set([1, value]),
  (value) => keyed(Array.from({ length: 1500 }, (_, i) => [`row-${i}`, i === 1400 ? value : i] as const)),
  (value) => new Error('outer', { cause: value }),
  (value) => new AggregateError([1, value], 'outer'),
  (value) => Object.assign(new Error('outer'), { value }),
]

const leaf = fc.nat({ max: leaves.length - 1 })
const nesting = fc.array(fc.constantFrom(...containers), { maxLength: 3 })
/** Keys of maps and members of sets hold no -0. */
const isZero = (index: number) => leaves[index] === 0
const nest = (value: unknown, around: typeof containers) => around.reduce((inner, put) => put(inner), value)

describe('the deep comparison', () => {
  test('finds that one value differs from another, in each container, and none where they are equal', () => {
    fc.assert(
      fc.property(leaf, leaf, nesting, (one, other, around) => {
        fc.pre(!(isZero(one) && isZero(other)))
        const [a, b] = [nest(leaves[one], around), nest(leaves[other], around)]
        expect(differences(a, b, { dataOf }).length > 0).toBe(one !== other)
        expect(isEqual(b, a, { dataOf })).toBe(one === other)
      }),
      { numRuns: 3000 },
    )
  })

  test('finds nothing between a value and what its bytes give, whatever the value', () => {
    const anything = fc.anything({
      ...{ withBigInt: true, withDate: true, withMap: true, withNullPrototype: true, withObjectString: true },
      ...{ withSet: true, withSparseArray: true, withTypedArray: true },
    })
    fc.assert(
      fc.property(anything, (value) => {
        expect(differences(value, codec.decode(codec.encode(value)))).toEqual([])
      }),
      { numRuns: 2000 },
    )
  })

  test('values whose bytes differ are different, for plain trees', () => {
    const tree = fc.anything({ withBigInt: true, withDate: true, withTypedArray: true, maxDepth: 2 })
    const bytes = (value: unknown) => Buffer.from(codec.encode(value)).toString('hex')
    fc.assert(
      fc.property(tree, tree, (a, b) => {
        expect(isEqual(a, b)).toBe(bytes(a) === bytes(b))
      }),
      { numRuns: 2000 },
    )
  })

  test('names the place and the kind, and gives both values', () => {
    const before = {
      a: { gone: 1, list: [1, 2] },
      'x.y': 1,
      map: new Map<unknown, unknown>([[1, 'a']]),
      tags: new Set(['a']),
    }
    const after = {
      a: { list: [1, 3, 4] },
      'x.y': 2,
      map: new Map<unknown, unknown>([['1', 'a']]),
      tags: new Set(['b']),
    }
    expect(differences(before, after)).toEqual([
      { path: 'a.gone', kind: 'removed', before: 1 },
      { path: 'a.list.1', kind: 'changed', before: 2, after: 3 },
      { path: 'a.list.2', kind: 'added', after: 4 },
      { path: '["x.y"]', kind: 'changed', before: 1, after: 2 },
      { path: 'map[1]', kind: 'removed', before: 'a' },
      { path: 'map.1', kind: 'added', after: 'a' },
      { path: 'tags.a', kind: 'removed', before: 'a' },
      { path: 'tags.b', kind: 'added', after: 'b' },
    ])
    expect(differences(1, '1')).toEqual([{ path: '', kind: 'changed', before: 1, after: '1' }])
    expect(differences(before, after, { most: 2 })).toHaveLength(2)
  })

  test('takes no notice of order and of shared references, and reports a shared part at each of its places', () => {
    const shared = { n: 1 }
    expect(isEqual({ a: shared, b: shared }, { b: { n: 1 }, a: { n: 1 } })).toBe(true)
    expect(isEqual(new Set([{ a: 1 }, { a: 2 }]), new Set([{ a: 2 }, { a: 1 }]))).toBe(true)
    expect(isEqual(new Set([{ a: 1 }, { a: 1 }]), new Set([{ a: 1 }, { a: 2 }]))).toBe(false)
    expect(isEqual(new Map([[{ a: 1 }, 1]]), new Map([[{ a: 1 }, 1]]))).toBe(true)
    const other = { n: 2 }
    expect(differences({ a: shared, b: shared }, { a: other, b: other }).map(({ path }) => path)).toEqual([
      'a.n',
      'b.n',
    ])
  })

  test('ends on cycles, through every container', () => {
    const cycle = (n: number) => {
      const value: Record<string, unknown> = { n, map: new Map(), set: new Set(), list: [] }
      value.self = value
      ;(value.map as Map<unknown, unknown>).set(value, value)
      ;(value.set as Set<unknown>).add(value.set).add(value)
      ;(value.list as unknown[]).push(value)
      return value
    }
    expect(differences(cycle(1), cycle(1))).toEqual([])
    expect(differences(cycle(1), cycle(2))[0]).toMatchObject({ path: 'n', before: 1, after: 2 })
  })

  test('kinds are distinguished by name', () => {
    expect([null, -0, 0, 1n, new Date(0), new Money(1), Object.create(null), []].map(kindOf)).toEqual([
      'null',
      '-0',
      'number',
      'bigint',
      'Date',
      'Money',
      'Object',
      'Array',
    ])
  })
})
