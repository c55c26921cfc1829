import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { timelineId } from './coordinate.ts'
import { firstRevision, identityOf, intentKey, revisionAt, seqOfRevision } from './identity.ts'

const sha256 = (bytes: Uint8Array) => new Uint8Array(createHash('sha256').update(bytes).digest())
const text = fc.oneof(fc.string({ unit: 'grapheme' }), fc.stringMatching(/^[a-c:0-9]{0,4}$/))

test('two timelines have the same identity only if store, namespace, id and life are the same', () => {
  const place = fc.tuple(text, text, fc.stringMatching(/^[a-c:0-9]{1,4}$/), fc.integer({ min: 1, max: 3 }))
  const of = ([id, namespace, timeline, life]: [string, string, string, number]) =>
    identityOf(sha256, { id }, namespace, timelineId(timeline), life)
  fc.assert(
    fc.property(place, place, (one, two) => {
      expect(of(one)).toMatch(/^[0-9a-f]{32}$/)
      expect(of(one) === of(two)).toBe(JSON.stringify(one) === JSON.stringify(two))
    }),
  )
})

test('G5: equal keys stand for equal intents, and fit a header', () => {
  const intent = fc.record({
    identity: fc.stringMatching(/^[0-9a-f]{2}$/),
    generation: fc.nat(12),
    model: fc.constantFrom('job', 'effect'),
    name: text,
    parts: fc.array(text, { maxLength: 3 }),
  })
  fc.assert(
    fc.property(intent, intent, (one, two) => {
      const key = intentKey(sha256, one)
      expect(key).toMatch(/^[\x21-\x7e]{33,57}$/)
      expect(key === intentKey(sha256, two)).toBe(JSON.stringify(one) === JSON.stringify(two))
    }),
    { numRuns: 2000 },
  )
})

// A million: REPRISE_IDS=1000000.
const idCount = Number(process.env.REPRISE_IDS ?? 100_000)

test('many intents of one run have as many keys', () => {
  const keys = new Set<string>()
  const common = { identity: '0'.repeat(32), generation: 0, model: 'job', name: 'item' }
  for (let i = 0; i < idCount; i++) keys.add(intentKey(sha256, { ...common, parts: [String(i)] }))
  expect(keys.size).toBe(idCount)
})

test('runs of many stores, namespaces, lives and forks, and the first key of each, have different ids', () => {
  const runs = idCount
  const stores = Array.from({ length: 10 }, (_, i) => ({ id: String(i).repeat(32) }))
  const part = (i: number, below: number, count: number) => Math.floor(i / below) % count
  // The first 64 bits: among two million keys, two are equal by chance once in nine million times.
  const starts = new BigUint64Array(2 * runs)
  for (let i = 0; i < runs; i++) {
    const id = timelineId(`workflow/pay/order-${part(i, 2000, 500)}${part(i, 1000, 2) === 1 ? '-fork' : ''}`)
    const identity = identityOf(sha256, stores[part(i, 100, 10)]!, `shop-${part(i, 10, 10)}`, id, 1 + (i % 10))
    const key = intentKey(sha256, { identity, generation: 0, model: 'workflow', name: 'charge', parts: ['charge'] })
    starts[2 * i] = BigInt(`0x${identity.slice(0, 16)}`)
    starts[2 * i + 1] = BigInt(`0x${key.slice('charge-'.length, 'charge-'.length + 16)}`)
  }
  starts.sort()
  let collisions = 0
  for (let i = 1; i < starts.length; i++) if (starts[i] === starts[i - 1]) collisions += 1
  expect(collisions).toBe(0)
}, 120_000)

test('a revision names its sequence up to the size of an era, and no sequence beyond it', () => {
  const history = { era: 2 ** 18 - 1, life: 4, first: firstRevision('ffffffff00000000') }
  const last = 2 ** 32 - 1
  expect(seqOfRevision(history, revisionAt(history, last))).toBe(last)
  expect(Number.isSafeInteger(revisionAt(history, last))).toBe(true)
  expect(() => revisionAt(history, last + 1)).toThrow('a sequence fits')
  expect(seqOfRevision(history, revisionAt(history, last) + 1)).toBeNull()
  expect(seqOfRevision(history, revisionAt(history, 0) - 1)).toBeNull()
  const next = { era: 1, life: 1, first: 0 }
  expect(revisionAt(next, 0)).toBeGreaterThan(revisionAt({ era: 0, life: 4, first: 2 ** 32 - 1 }, last))
})
