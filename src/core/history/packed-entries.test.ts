import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { Codec } from '../codec/codec.ts'
import { timelineId } from '../coordinate.ts'
import { type EntryDraft, makeRun, nonceBytes, originDigest, packEntries } from './entry-run.ts'
import { EntryPacker, joinPacked, type PackedEntries, type PackedHead, pickPacked, takeOut } from './packed-entries.ts'

const sha256 = (bytes: Uint8Array) => new Uint8Array(createHash('sha256').update(bytes).digest())
const before = originDigest(sha256, timelineId('counter/visits'))
const codec = new Codec()

interface Given {
  readonly head: PackedHead
  readonly data: Record<string, unknown>
}

const field = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 300 }),
  fc.double(),
  fc.integer(),
  fc.constantFrom(null, undefined, true, -0, 3n, 'x'.repeat(600)),
  fc.array(fc.integer(), { maxLength: 3 }),
)
const name = fc.oneof(
  fc.string({ maxLength: 4 }),
  fc.constantFrom('text', 'by', 'at', 'type', '__proto__', 'constructor'),
)
const data = fc.array(fc.tuple(name, field), { maxLength: 5 }).map((fields) => {
  const made: Record<string, unknown> = {}
  for (const [key, value] of fields) {
    Object.defineProperty(made, key, { value, enumerable: true, writable: true, configurable: true })
  }
  return made
})
const times = fc.integer({ min: 1_700_000_000_000, max: 1_700_000_000_200 })
const given: fc.Arbitrary<Given> = fc.record({
  head: fc.record({
    type: fc.string({ minLength: 1, maxLength: 8 }),
    version: fc.integer({ min: 1, max: 300 }),
    time: times,
    key: fc.option(fc.string({ unit: 'binary', minLength: 1, maxLength: 20 }), { nil: undefined }),
  }),
  data,
})
const requests = fc.array(fc.array(given, { minLength: 1, maxLength: 6 }), { minLength: 1, maxLength: 4 })
const places = fc.record({
  first: fc.integer({ min: 1, max: 2 ** 40 }),
  epoch: fc.integer({ min: 1, max: 2 ** 40 }),
  nonce: fc.option(fc.uint8Array({ minLength: nonceBytes, maxLength: nonceBytes })),
})

function pack(entries: readonly Given[], by = codec, holdsType = false) {
  const packer = new EntryPacker(by, Math.min(...entries.map(({ head }) => head.time)))
  try {
    const values = entries.map(({ head, data }) => packer.add(head, data, holdsType))
    return { values, packed: packer.finish() }
  } finally {
    packer.close()
  }
}

/** The reference: each entry is encoded separately, and added to the run one by one. */
const draftOf = ({ head, data }: Given): EntryDraft => ({ ...head, lead: 0, data: codec.encode(data) })

test('entries that are packed as they are encoded make the run that is made of them one by one', () => {
  fc.assert(
    fc.property(requests, places, (all, place) => {
      // All are packed before any is used, as requests wait in a queue: none may write into another.
      const packed = all.map((entries) => pack(entries))
      for (const [i, entries] of all.entries()) {
        const run = makeRun(sha256, { before, ...place }, packed[i]!.packed, entries.length)
        expect(run).toEqual(packEntries(sha256, { before, ...place }, entries.map(draftOf)))
        expect(packed[i]!.values).toEqual(entries.map(({ data }) => codec.decode(codec.encode(data))))
      }
    }),
  )
})

test('requests of one moment are joined as if they had been one', () => {
  fc.assert(
    fc.property(requests, places, times, (all, place, time) => {
      const parts = all.map((entries) => entries.map((entry) => ({ ...entry, head: { ...entry.head, time } })))
      const joined = joinPacked(parts.map((entries) => pack(entries).packed))
      const run = makeRun(sha256, { before, ...place }, joined!, parts.flat().length)
      expect(run).toEqual(packEntries(sha256, { before, ...place }, parts.flat().map(draftOf)))
    }),
  )
  const other: Given = { head: { type: 'a', version: 1, time: 2, key: undefined }, data: {} }
  const packed = [pack([other]).packed, pack([{ ...other, head: { ...other.head, time: 3 } }]).packed]
  expect(joinPacked(packed)).toBe(null)
})

test('selected and extracted entries are unchanged', () => {
  fc.assert(
    fc.property(
      fc.array(given, { minLength: 1, maxLength: 6 }),
      fc.array(fc.boolean(), { minLength: 6 }),
      (all, flags) => {
        const { packed } = pack(all)
        const lead = ({ lead: _, ...draft }: EntryDraft) => draft
        expect(takeOut(packed)).toEqual(all.map(draftOf).map(lead))
        const wanted = all.filter((_, i) => flags[i])
        if (wanted.length === 0) return
        const picked: PackedEntries = pickPacked(packed, (i) => flags[i]!)
        expect(takeOut(picked)).toEqual(wanted.map(draftOf).map(lead))
      },
    ),
  )
})

test('an object that holds its type is stored without it, whatever else is in it', () => {
  fc.assert(
    fc.property(fc.array(given, { minLength: 1, maxLength: 6 }), (all) => {
      const { packed, values } = pack(all, codec, true)
      const rests = all.map(({ head, data: { type: _, ...data } }) => ({ head, data }))
      expect(takeOut(packed)).toEqual(takeOut(pack(rests).packed))
      expect(values.map((value) => Object.entries(value as object))).toEqual(
        rests.map(({ data }) => Object.entries(codec.decode(codec.encode(data)) as object)),
      )
    }),
  )
  const odd = { head: { type: 'a', version: 1, time: 5, key: undefined }, data: { type: 'a', [Symbol('s')]: 1 } }
  expect(() => pack([odd], codec, true)).toThrow('a symbol as key')
})

test('a request that fails leaves nothing behind, and a class codec may append in the middle of one', () => {
  class Nested {}
  const head = { type: 'a', version: 1, time: 5, key: undefined }
  const inner: Given = { head, data: { text: 'y'.repeat(200) } }
  const outer: Given = { head, data: { before: 'x'.repeat(300), nested: new Nested() } }
  const made: PackedEntries[] = []
  const classOf = (encode: () => unknown) => ({ name: 'nested', type: Nested, encode, decode: () => new Nested() })
  const plain = new Codec({ classes: [classOf(() => 1)] })
  const appending: Codec = new Codec({
    classes: [
      classOf(() => {
        made.push(pack([inner], appending).packed)
        return 1
      }),
    ],
  })
  const dataOf = (packed: PackedEntries) => takeOut(packed)[0]!.data
  const { packed } = pack([outer], appending)
  expect(() => pack([{ head, data: { text: 'z'.repeat(400), bad: () => 1 } }], appending)).toThrow('a function')
  made.push(pack([inner], appending).packed)
  expect(dataOf(packed)).toEqual(plain.encode(outer.data))
  expect(made.map(dataOf)).toEqual([codec.encode(inner.data), codec.encode(inner.data)])
})

test('the size limit is that of a value, not of all that are packed together', () => {
  const small = new Codec({ limits: { valueBytes: 1000, valueDepth: 10 } })
  const entry = (length: number): Given => ({
    head: { type: 'a', version: 1, time: 1, key: undefined },
    data: { text: 'x'.repeat(length) },
  })
  const { packed } = pack(
    Array.from({ length: 2000 }, () => entry(700)),
    small,
  )
  expect(takeOut(packed)).toHaveLength(2000)
  expect(packed.longest).toBeLessThan(1000)
  expect(() => pack([entry(10), entry(1000)], small)).toThrow(expect.objectContaining({ code: 'LIMIT_EXCEEDED' }))
})
