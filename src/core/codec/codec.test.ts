import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type ErrorCode, isReprise, type RepriseError } from '../errors.ts'
import type { ClassCodec } from './class-codec.ts'
import { Codec } from './codec.ts'

const codec = new Codec()
const small = (valueBytes: number, valueDepth: number) => new Codec({ limits: { valueBytes, valueDepth } })

function roundTrip<T>(value: T): T {
  return codec.decode(codec.encode(value)) as T
}

function failure(act: () => unknown): RepriseError {
  try {
    act()
  } catch (error) {
    if (isReprise(error)) return error
    throw error
  }
  throw new Error('nothing was thrown')
}

function refuses(code: ErrorCode, act: () => unknown): void {
  expect(failure(act).code).toBe(code)
}

/** Equal including -0, holes, key sets, prototypes of containers, and the identity of shared containers. */
function same(a: unknown, b: unknown, seen = new Map<object, object>()): boolean {
  if (typeof a !== 'object' || a === null || typeof b !== 'object' || b === null) return Object.is(a, b)
  const known = seen.get(a)
  if (known !== undefined) return known === b
  seen.set(a, b)
  const kind = Object.prototype.toString.call(a)
  if (kind !== Object.prototype.toString.call(b)) return false
  if (a instanceof Date) return Object.is(a.getTime(), (b as Date).getTime())
  if (a instanceof Map) return same([...a], [...(b as Map<unknown, unknown>)], seen)
  if (a instanceof Set) return same([...a], [...(b as Set<unknown>)], seen)
  if (a instanceof ArrayBuffer) return same(new Uint8Array(a), new Uint8Array(b as ArrayBuffer), seen)
  if (a instanceof DataView) return same(a.buffer, (b as DataView).buffer, seen)
  const keysA = Object.keys(a).sort()
  const keysB = Object.keys(b).sort()
  if (keysA.join('\0') !== keysB.join('\0')) return false
  if (Array.isArray(a) && a.length !== (b as unknown[]).length) return false
  return keysA.every((key) => same(Reflect.get(a, key), Reflect.get(b, key), seen))
}

const text = fc.oneof(
  { arbitrary: fc.string({ unit: 'binary' }), weight: 10 },
  { arbitrary: fc.string({ unit: 'grapheme' }), weight: 10 },
  { arbitrary: fc.string({ unit: 'grapheme', maxLength: 700 }), weight: 1 },
)
const loneSurrogates = fc
  .array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 6 })
  .map((u) => String.fromCharCode(...u))
const anything = fc.anything({
  key: fc.oneof(text, fc.constantFrom('__proto__', 'constructor', 'toString', '0', '-1', '')),
  values: [
    fc.boolean(),
    fc.integer(),
    fc.maxSafeInteger(),
    fc.double(),
    fc.float(),
    fc.bigInt(),
    fc.bigInt({ min: -(2n ** 200n), max: 2n ** 200n }),
    text,
    loneSurrogates,
    fc.constantFrom(undefined, null, -0, Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY),
    fc.constantFrom(63, 64, -1, -64, 2 ** 31, 2 ** 32, 2 ** 53 - 1, -(2 ** 53) + 1, 2 ** 53, 0.5, 0.1),
  ],
  withDate: true,
  withMap: true,
  withSet: true,
  withSparseArray: true,
  withTypedArray: true,
  withNullPrototype: false,
  maxDepth: 4,
})

describe('A8.6 values come back whole', () => {
  test('whatever plain data is encoded comes back equal, to the bit and the hole', () => {
    fc.assert(
      fc.property(anything, (value) => same(value, roundTrip(value))),
      { numRuns: 2000 },
    )
  })

  test('encoding a decoded value gives the same bytes', () => {
    fc.assert(
      fc.property(anything, (value) => {
        const bytes = codec.encode(value)
        expect(codec.encode(codec.decode(bytes))).toEqual(bytes)
      }),
      { numRuns: 1000 },
    )
  })

  test('a copy equals its decoded bytes, in the order of its keys too, and is independent', () => {
    const flat = fc.dictionary(
      fc.oneof(text, fc.constantFrom('__proto__', 'constructor', '10', '9')),
      fc.oneof(text, fc.double(), fc.constant(-0), fc.bigInt(), fc.constantFrom(null, undefined, true)),
    )
    fc.assert(
      fc.property(fc.oneof(anything, flat), (value) => {
        const { bytes, value: copy } = codec.copy(value)
        const decoded = codec.decode(bytes)
        expect(bytes).toEqual(codec.encode(value))
        expect(same(copy, decoded)).toBe(true)
        if (typeof copy !== 'object' || copy === null) return
        expect(copy).not.toBe(value)
        expect(Object.keys(copy)).toEqual(Object.keys(decoded as object))
      }),
      { numRuns: 2000 },
    )
  })

  test('typed arrays, DataView and ArrayBuffer keep their kind, length and bytes', () => {
    const bytes = Uint8Array.from({ length: 16 }, (_, i) => i * 17)
    for (const type of [Uint8ClampedArray, Int8Array, Uint16Array, Int16Array, Uint32Array, Int32Array] as const) {
      expect(roundTrip(new type(bytes.buffer))).toEqual(new type(bytes.buffer))
    }
    for (const type of [Float32Array, Float64Array, BigInt64Array, BigUint64Array] as const) {
      expect(roundTrip(new type(bytes.buffer))).toEqual(new type(bytes.buffer))
    }
    expect(same(roundTrip(new DataView(bytes.buffer, 3, 5)), new DataView(bytes.slice(3, 8).buffer))).toBe(true)
    expect(same(roundTrip(bytes.buffer), bytes.buffer)).toBe(true)
    const buffer = roundTrip<Uint8Array>(Buffer.from('abc'))
    expect(Object.getPrototypeOf(buffer)).toBe(Uint8Array.prototype)
    expect([...buffer]).toEqual([97, 98, 99])
  })

  test('a decoded byte array is a copy and does not change with the bytes it was read from', () => {
    const bytes = codec.encode(new Uint8Array([1, 2, 3]))
    const value = codec.decode(bytes) as Uint8Array
    bytes.fill(0)
    expect([...value]).toEqual([1, 2, 3])
  })

  test('dates keep their millisecond, and an invalid date stays invalid', () => {
    for (const time of [0, -1, 8.64e15, -8.64e15, 1_700_000_000_123, Number.NaN]) {
      expect(roundTrip(new Date(time)).getTime()).toBe(time)
    }
  })

  test('the cost of a sparse array of 4,294,967,295 depends on its elements', () => {
    const sparse: unknown[] = []
    sparse[4_294_967_293] = 'last'
    sparse.length = 4_294_967_295
    sparse[7] = undefined
    const bytes = codec.encode(sparse)
    expect(bytes.length).toBeLessThan(30)
    const back = codec.decode(bytes) as unknown[]
    expect(back.length).toBe(4_294_967_295)
    expect(Object.keys(back)).toEqual(['7', '4294967293'])
    expect(back[4_294_967_293]).toBe('last')
  })

  test('regular expressions keep source and flags', () => {
    for (const value of [/a\/b[c]/giu, /(?:)/, /\n/y]) expect(String(roundTrip(value))).toBe(String(value))
  })

  test('shared references and cycles keep their identity, in every kind of container', () => {
    const shared = { n: 1 }
    const value = { a: shared, b: [shared], map: new Map<unknown, unknown>(), set: new Set<unknown>() }
    value.map.set(shared, value)
    value.set.add(value.set).add(shared)
    const back = roundTrip(value)
    expect(back.b[0]).toBe(back.a)
    expect(back.map.get(back.a)).toBe(back)
    expect([...back.set][0]).toBe(back.set)
    expect(back.set.has(back.a)).toBe(true)
    const many = Array.from({ length: 40 }, () => ({ shared }))
    expect(new Set(roundTrip(many).map((item) => item.shared)).size).toBe(1)
  })

  test('errors keep class, name, message, cause, errors and their own data; the stack stays here', () => {
    class Declined extends TypeError {
      override name = 'Declined'
      code = 402
    }
    const error = new Declined('no money', { cause: new AggregateError([new RangeError('a'), 'b'], 'both') })
    const back = roundTrip(error)
    expect(back).toBeInstanceOf(TypeError)
    expect(back).toMatchObject({ name: 'Declined', message: 'no money', code: 402 })
    expect(back.stack).toBe('Declined: no money')
    const cause = back.cause as AggregateError
    expect(cause).toBeInstanceOf(AggregateError)
    expect(cause.errors[0]).toBeInstanceOf(RangeError)
    expect(cause.errors[1]).toBe('b')
    expect(Object.keys(back)).toEqual(['code'])
    const loop = new Error('loop')
    loop.cause = loop
    const backLoop = roundTrip(loop)
    expect(backLoop.cause).toBe(backLoop)
    const odd = Object.assign(new Error('x'), { message: '', name: 'Error', errors: [1] })
    expect(roundTrip(odd)).toMatchObject({ message: '', name: 'Error', errors: [1] })
  })

  test('keys such as __proto__ and constructor are data', () => {
    const value = JSON.parse('{"__proto__":{"polluted":true},"constructor":1,"toString":2,"hasOwnProperty":3}')
    const back = roundTrip(value)
    expect(Object.keys(back).sort()).toEqual(['__proto__', 'constructor', 'hasOwnProperty', 'toString'])
    expect(Object.getPrototypeOf(back)).toBe(Object.prototype)
    expect(Object.getOwnPropertyDescriptor(back, '__proto__')?.value).toEqual({ polluted: true })
    expect(({} as Record<string, unknown>).polluted).toBeUndefined()
  })

  test('an object without a prototype comes back as a plain one', () => {
    const value = Object.assign(Object.create(null), { a: 1 })
    expect(roundTrip(value)).toEqual({ a: 1 })
  })

  test('objects with many keys, long keys, and more shapes than the table holds come back equal', () => {
    const wide = Object.fromEntries(Array.from({ length: 33 }, (_, i) => [`k${i}`, i]))
    const long = { ['x'.repeat(600)]: 1, ['y'.repeat(600)]: 2 }
    const shapes = Array.from({ length: 1500 }, (_, i) => ({ [`only${i}`]: i }))
    const value = [wide, wide, long, long, shapes, shapes.map((s) => ({ ...s })), { a: 1 }]
    expect(same(roundTrip(value), value)).toBe(true)
    const bytes = codec.encode(value)
    expect(codec.encode(codec.decode(bytes))).toEqual(bytes)
    expect(new Codec().encode(value)).toEqual(bytes)
  })
})

describe('equal values give equal bytes', () => {
  test('the order in which keys were added does not matter', () => {
    const entries = fc.array(fc.tuple(text, fc.integer()), { maxLength: 50 })
    fc.assert(
      fc.property(entries, fc.infiniteStream(fc.nat()), (pairs, random) => {
        const unique = [...new Map(pairs)].filter(([key]) => key !== '__proto__')
        const shuffled = unique
          .map((pair) => ({ pair, order: random.next().value as number }))
          .sort((a, b) => a.order - b.order)
          .map(({ pair }) => pair)
        expect(codec.encode(Object.fromEntries(shuffled))).toEqual(codec.encode(Object.fromEntries(unique)))
      }),
    )
  })

  test('values that a codec encoded before do not change its bytes', () => {
    const warm = new Codec()
    fc.assert(
      fc.property(anything, (value) => {
        expect(warm.encode(value)).toEqual(new Codec().encode(value))
      }),
      { numRuns: 500 },
    )
  })

  test('bytes that were handed out are never written again', () => {
    const kept: [Uint8Array, Uint8Array][] = []
    for (let i = 0; i < 5000; i++) {
      const bytes = codec.encode({ i, text: 'x'.repeat(i % 300) })
      kept.push([bytes, bytes.slice()])
      if (i % 7 === 0) refuses('UNSERIALIZABLE', () => codec.encode(['lost', () => 0]))
    }
    for (const [bytes, copy] of kept) expect(Buffer.compare(bytes, copy)).toBe(0)
  })

  test('the format does not change: these bytes are for good', () => {
    const value = { b: [1, -1, 0.5, 'é'], a: new Map([['k', new Date(1000)]]), c: [{ b: 1 }, { b: 2 }] }
    expect(Buffer.from(codec.encode(value)).toString('hex')).toBe(
      '019206416141624163950141 6b9784e8076401850086000000 3f42c3a962920241620171 02'.replaceAll(' ', ''),
    )
  })
})

describe('values that are not plain data are refused, with their path', () => {
  class Money {
    readonly cents: number
    constructor(cents: number) {
      this.cents = cents
    }
  }
  const cases: [string, unknown, string][] = [
    ['a function', { a: [0, { 'b c': () => 0 }] }, '$.a[1]["b c"]'],
    ['a symbol', [Symbol('x')], '$[0]'],
    ['a symbol key', { a: { [Symbol('x')]: 1 } }, '$.a'],
    ['an instance of a class', { price: new Money(1) }, '$.price'],
    [
      'a getter',
      {
        get x() {
          throw new Error('ran')
        },
      },
      '$.x',
    ],
    ['a promise', new Map([[1, Promise.resolve()]]), '$<value 0>'],
    ['a weak map as member', new Set([1, new WeakMap()]), '$<member 1>'],
    ['a subclass of Array', { a: new (class List extends Array {})() }, '$.a'],
    ['a subclass of Map', [new (class extends Map {})()], '$[0]'],
    ['a boxed number', [Object(1)], '$[0]'],
    ['a cause that is a function', new Error('x', { cause: () => 0 }), '$.cause'],
  ]
  for (const [name, value, path] of cases) {
    test(`${name} at ${path}`, () => {
      const error = failure(() => codec.encode(value))
      expect(error.code).toBe('UNSERIALIZABLE')
      expect(error.data.path).toBe(path)
      expect(error.message).toContain(path)
    })
  }

  test('a value that throws while it is read, or only pretends to be built in', () => {
    const { proxy, revoke } = Proxy.revocable({}, {})
    revoke()
    refuses('UNSERIALIZABLE', () => codec.encode([proxy]))
    refuses('UNSERIALIZABLE', () => codec.encode(Object.create(Date.prototype)))
    refuses('UNSERIALIZABLE', () => codec.encode(Object.create(Map.prototype)))
  })

  const money: ClassCodec<Money> = {
    name: 'money',
    type: Money,
    encode: (value) => value.cents,
    decode: (data) => new Money(data as number),
  }

  test('a registered class comes back as itself, shared where it was shared', () => {
    const shop = new Codec({ classes: [money] })
    const price = new Money(5)
    const back = shop.decode(shop.encode({ price, again: price })) as { price: Money; again: Money }
    expect(back.price).toBeInstanceOf(Money)
    expect(back.price.cents).toBe(5)
    expect(back.again).toBe(back.price)
    refuses('UNKNOWN_CODEC', () => codec.decode(shop.encode(price)))
    refuses('INVALID_ARGUMENT', () => new Codec({ classes: [money, { ...money, name: 'other' }] }))
    refuses('INVALID_ARGUMENT', () => new Codec({ classes: [{ ...money, name: '' }] }))
  })

  test('a class codec may use the codec it is part of, and its failures name the place', () => {
    const nested: Codec = new Codec({
      classes: [{ ...money, encode: (v) => nested.encode({ c: (v as Money).cents }) } as ClassCodec<Money>],
    })
    const bytes = nested.encode({ a: 1, price: new Money(5), z: 2 })
    expect(new Codec({ classes: [{ ...money, decode: (data) => data as never }] }).decode(bytes)).toEqual({
      a: 1,
      price: codec.encode({ c: 5 }),
      z: 2,
    })
    const failing = new Codec({
      classes: [
        {
          ...money,
          encode: () => {
            throw new Error('no')
          },
        },
      ],
    })
    expect(failure(() => failing.encode([new Money(1)])).message).toContain('$[0]')
    const refusing = new Codec({
      classes: [
        {
          ...money,
          decode: () => {
            throw new Error('no')
          },
        },
      ],
    })
    refuses('MALFORMED', () => refusing.decode(new Codec({ classes: [money] }).encode(new Money(1))))
    const looping = new Codec({ classes: [{ ...money, encode: (value) => value } as ClassCodec<Money>] })
    refuses('UNSERIALIZABLE', () => looping.encode(new Money(1)))
  })
})

describe('limits', () => {
  const nest = (depth: number) => {
    let value: unknown[] = []
    for (let i = 1; i < depth; i++) value = [value]
    return value
  }

  test('nesting up to the limit passes and one more is LIMIT_EXCEEDED, both ways', () => {
    const deep = codec.encode(nest(10))
    expect(small(1000, 10).decode(deep)).toEqual(nest(10))
    refuses('LIMIT_EXCEEDED', () => small(1000, 9).decode(deep))
    expect(small(1000, 10).encode(nest(10))).toEqual(deep)
    refuses('LIMIT_EXCEEDED', () => small(1000, 9).encode(nest(10)))
    expect(roundTrip(nest(1000))).toBeDefined()
    refuses('LIMIT_EXCEEDED', () => codec.encode(nest(1001)))
  })

  test('G15 five million levels end in LIMIT_EXCEEDED, also where the limit was raised beyond the stack', () => {
    const value = nest(5_000_000)
    const bytes = new Uint8Array(5_000_000).fill(0x61)
    bytes[0] = 1
    for (const each of [codec, small(64e6, 1e9)]) {
      refuses('LIMIT_EXCEEDED', () => each.encode(value))
      refuses('LIMIT_EXCEEDED', () => each.decode(bytes))
    }
    expect(small(64e6, 1e9).decode(codec.encode([1]))).toEqual([1])
  })

  test('the default depth fits the stack for every kind of container', () => {
    const kinds: ((inner: unknown) => unknown)[] = [
      (inner) => ({ inner }),
      (inner) => new Map([[inner, 1]]),
      (inner) => new Set([inner]),
      (inner) => new Error('outer', { cause: inner }),
      (inner) => Object.assign([], { 3: inner }),
    ]
    for (const wrap of kinds) {
      // An error and its fields are two levels.
      const levels = wrap(0) instanceof Error ? 499 : 999
      let value: unknown = []
      for (let i = 0; i < levels; i++) value = wrap(value)
      refuses('LIMIT_EXCEEDED', () => codec.encode(wrap(value)))
      const bytes = codec.encode(value)
      expect(codec.encode(codec.decode(bytes))).toEqual(bytes)
    }
  })

  test('a value of the largest size passes and one byte more is LIMIT_EXCEEDED, both ways', () => {
    for (const value of [
      'x'.repeat(3000),
      'é'.repeat(1500),
      new Uint8Array(3000),
      'x'.repeat(30),
      '\ud800'.repeat(99),
    ]) {
      const bytes = codec.encode(value)
      expect(small(bytes.length, 10).encode(value)).toEqual(bytes)
      expect(small(bytes.length, 10).decode(bytes)).toEqual(value)
      refuses('LIMIT_EXCEEDED', () => small(bytes.length - 1, 10).encode(value))
      refuses('LIMIT_EXCEEDED', () => small(bytes.length - 1, 10).decode(bytes))
    }
  })

  test('the number of containers is bounded by the size limit, both ways', () => {
    const fits = Array.from({ length: 1023 + 1000 }, () => [])
    const over = [...fits, []]
    const limited = small(8000, 10)
    expect(limited.decode(limited.encode(fits))).toEqual(fits)
    refuses('LIMIT_EXCEEDED', () => limited.encode(over))
    refuses('LIMIT_EXCEEDED', () => limited.decode(codec.encode(over)))
  })
})
