import fc from 'fast-check'
import { afterEach, describe, expect, test } from 'vitest'
import { Codec } from '../../src/core/codec/codec.ts'
import { isReprise, RepriseError } from '../../src/core/errors.ts'
import { hostileBytes, strangeValues } from './corpus.ts'

const codec = new Codec({ limits: { valueBytes: 1_000_000, valueDepth: 1000 } })
const prototypeKeys = Reflect.ownKeys(Object.prototype).length

afterEach(() => {
  expect(Reflect.ownKeys(Object.prototype).length).toBe(prototypeKeys)
  expect(Object.hasOwn(Object.prototype, 'isAdmin')).toBe(false)
})

/** A value, or a RepriseError; anything else fails the test. Returns whether it was a value. */
function survives(bytes: Uint8Array): boolean {
  let value: unknown
  try {
    value = codec.decode(bytes)
  } catch (error) {
    expect(error).toBeInstanceOf(RepriseError)
    expect((error as RepriseError).code).not.toBe('BUG')
    return false
  }
  // One value, one encoding: accepted bytes equal those of the encoder.
  expect(Buffer.from(codec.encode(value)).toString('hex')).toBe(Buffer.from(bytes).toString('hex'))
  return true
}

describe('G15 hostile bytes end in a typed error', () => {
  for (const { name, hex, code } of hostileBytes) {
    test(`${name} is ${code}`, () => {
      try {
        codec.decode(Buffer.from(hex, 'hex'))
      } catch (error) {
        if (!isReprise(error)) throw error
        expect(error.code).toBe(code)
        return
      }
      expect.unreachable('it was accepted')
    })
  }

  test('random bytes are a value in its one spelling, or a typed error', () => {
    const bytes = fc.uint8Array({ maxLength: 64 }).map((tail) => Uint8Array.of(1, ...tail))
    fc.assert(
      fc.property(bytes, (input) => void survives(input)),
      { numRuns: 20_000 },
    )
  })

  test('random tags are a value in its one spelling, or a typed error', () => {
    const tags = fc.oneof(
      fc.integer({ min: 0x80, max: 0x9d }),
      fc.integer({ min: 0, max: 4 }),
      fc.integer({ min: 0x40, max: 0x7f }),
    )
    const bytes = fc.array(tags, { maxLength: 40 }).map((tail) => Uint8Array.of(1, ...tail))
    fc.assert(
      fc.property(bytes, (input) => void survives(input)),
      { numRuns: 20_000 },
    )
  })

  test('every flipped bit and every cut of a rich value is survived', () => {
    const shared = { n: 1, text: 'Grüße' }
    const rich = {
      shared,
      again: [shared, { ...shared }, { ...shared }],
      map: new Map<unknown, unknown>([
        ['k', new Date(5)],
        [shared, new Set([1n, -(2n ** 70n), '\ud800'])],
      ]),
      bytes: [new Uint8Array(5), new Float64Array([1.5]), new ArrayBuffer(3), new DataView(new ArrayBuffer(2))],
      // biome-ignore lint/suspicious/noSparseArray: holes are what is tested
      holes: [1, , 3],
      error: new AggregateError([new TypeError('x')], 'y', { cause: /a+/g }),
      numbers: [0.1, 0.5, -5, 2 ** 40, Number.NaN, -0, null, undefined, true],
      wide: Object.fromEntries(Array.from({ length: 40 }, (_, i) => [`key${i}`, i])),
    }
    const bytes = codec.encode(rich)
    expect(survives(bytes)).toBe(true)
    for (let i = 0; i < bytes.length; i++) {
      for (let bit = 0; bit < 8; bit++) {
        const flipped = bytes.slice()
        flipped[i]! ^= 1 << bit
        survives(flipped)
      }
      expect(survives(bytes.subarray(0, i))).toBe(false)
    }
  })

  test('a small input cannot fill the memory with empty containers or promised lengths', () => {
    const megabyte = new Uint8Array(1_000_000)
    for (const tag of [0x60, 0x95, 0x96, 0x92]) {
      megabyte.fill(0)
      megabyte.set([1, 0x90, 0xb8, 0x84, 0x3d])
      for (let i = 5; i < megabyte.length; i += tag === 0x60 ? 1 : 2) megabyte[i] = tag
      expect(survives(megabyte)).toBe(false)
    }
    // 30 million promised, one present, many times over: holes take no room.
    const holes = [0x91, 0x80, 0x87, 0xa7, 0x0e, 0x01, 0x05, 0x00]
    const many = Uint8Array.of(1, 0x90, 200, 1, ...Array.from({ length: 200 }, () => holes).flat())
    expect(survives(many)).toBe(true)
  })

  test('many shapes with colliding hashes stay cheap enough to finish', () => {
    // "Aa" and "BB" collide under the usual polynomial hash, and so does every mix of them.
    const pairs = (i: number) => Array.from({ length: 11 }, (_, bit) => (i & (1 << bit) ? 'Aa' : 'BB')).join('')
    const value = Array.from({ length: 2048 }, (_, i) => ({ [pairs(i)]: 1 }))
    expect(survives(codec.encode(value))).toBe(true)
  })
})

describe('G15 strange values are data', () => {
  for (const { name, value } of strangeValues) {
    test(`${name} comes back`, () => {
      const bytes = codec.encode(value)
      expect(codec.decode(bytes)).toEqual(value)
      expect(codec.encode(codec.decode(bytes))).toEqual(bytes)
    })
  }
})
