import fc from 'fast-check'
import { expect, it } from 'vitest'
import { applyFields, type FieldOwners, fieldsOf, stillOwned } from './field-owners.ts'
import { equalJson, type Json } from './json.ts'

const leaf = fc.oneof(fc.integer({ min: 0, max: 2 }), fc.constant([1]), fc.constant(null), fc.constant({}))
const name = fc.constantFrom('a', 'b', 'c', 'x/y', '__proto__')
const map = (within: fc.Arbitrary<unknown>) => fc.dictionary(name, within, { maxKeys: 3, noNullPrototype: true })
const part = fc.record({ spec: map(fc.oneof(leaf, map(fc.oneof(leaf, map(leaf))))) }) as fc.Arbitrary<Json>
const step = fc.record({ by: fc.constantFrom('A', 'B', 'C'), wanted: part, force: fc.boolean() })

function fieldsAt(value: Json, fields: readonly string[]) {
  const all = fieldsOf(value)
  return fields.map((field) => all.get(field))
}

/**
 * Runs a sequence of applies and returns the first violation; null: none. The reference model: each owner's last applied
 * fields, and the value before.
 */
function play(base: Json, steps: readonly { by: string; wanted: Json; force: boolean }[]): string | null {
  let value = base
  let owners: FieldOwners = {}
  const wishes = new Map<string, ReadonlyMap<string, Json>>()
  for (const { by, wanted, force } of steps) {
    const before = { value, owners }
    try {
      ;({ value, owners } = applyFields(value, owners, wanted, by, force))
    } catch (error) {
      const { code, data } = error as { code: string; data: { conflicts: { owner: string; field: string }[] } }
      if (code !== 'CONFLICT' || force) return `it fails with ${String(error)}`
      for (const { owner, field } of data.conflicts) {
        if (owner === by || !before.owners[owner]!.includes(field)) return `${owner} does not own ${field}`
      }
      continue
    }
    wishes.set(by, fieldsOf(wanted))
    if (!equalJson(applyFields(value, owners, wanted, by, false), { value, owners })) return 'twice is not once'
    for (const [owner, fields] of Object.entries(owners)) {
      const held = fieldsAt(value, fields)
      for (const [i, field] of fields.entries()) {
        const wish = wishes.get(owner)!.get(field)
        // A map applied as empty may have content by now.
        const isMap = equalJson(wish, {}) && [...fieldsOf(value).keys()].some((each) => each.startsWith(`${field}/`))
        const isThere = isMap || equalJson(held[i], wish)
        if (!isThere) return `${owner} wants ${field} to be ${JSON.stringify(wish)}: ${JSON.stringify(value)}`
      }
      if (!force && owner !== by && !equalJson(fields, before.owners[owner])) return `${owner} lost a field`
    }
  }
  const owned = new Set(Object.values(owners).flat())
  const was = fieldsOf(base)
  for (const [field, leftOver] of fieldsOf(value)) {
    if (owned.has(field) || equalJson(was.get(field), leftOver)) continue
    const isEmptied = equalJson(leftOver, {})
    if (!isEmptied) return `${field} is there, and nobody wants it`
  }
  return null
}

it('keeps the last applied fields of each owner, and unowned fields, after any sequence', () => {
  fc.assert(
    fc.property(part, fc.array(step, { maxLength: 8 }), (base, steps) => {
      expect(play(base, steps)).toBeNull()
    }),
    { numRuns: 1000 },
  )
})

it('reports a conflict with the owner and the field, and takes the field over when forced', () => {
  const first = applyFields({}, {}, { spec: { replicas: 3, image: 'a' } }, 'deployer', false)
  const scaled = { spec: { replicas: 5 } }
  expect(() => applyFields(first.value, first.owners, scaled, 'scaler', false)).toThrow(
    expect.objectContaining({
      code: 'CONFLICT',
      message: expect.stringContaining('deployer owns it'),
      data: { conflicts: [{ owner: 'deployer', field: '/spec/replicas' }] },
    }),
  )
  const forced = applyFields(first.value, first.owners, scaled, 'scaler', true)
  expect(forced).toEqual({
    value: { spec: { replicas: 5, image: 'a' } },
    owners: { deployer: ['/spec/image'], scaler: ['/spec/replicas'] },
  })
  // The deployer no longer owns the field, so leaving it out removes nothing.
  const left = applyFields(forced.value, forced.owners, { spec: { image: 'a' } }, 'deployer', false)
  expect(left.value).toEqual({ spec: { replicas: 5, image: 'a' } })
})

it('owns a field together with others that apply the same; it is removed when the last one omits it', () => {
  const one = applyFields({}, {}, { spec: { mode: { dry: true } } }, 'a', false)
  const two = applyFields(one.value, one.owners, { spec: { mode: { dry: true } } }, 'b', false)
  const three = applyFields(two.value, two.owners, { spec: {} }, 'a', false)
  expect(three.value).toEqual({ spec: { mode: { dry: true } } })
  expect(applyFields(three.value, three.owners, { labels: {} }, 'b', false).value).toEqual({ spec: {}, labels: {} })
})

it('forgets the owners of fields that were changed in another way', () => {
  const { value, owners } = applyFields({}, {}, { spec: { a: 1, b: { c: 2 } } }, 'x', false)
  expect(stillOwned(owners, value, { spec: { a: 1, b: { c: 3 } } })).toEqual({ x: ['/spec/a'] })
  expect(stillOwned(owners, value, { spec: 7 })).toEqual({})
})

it('is bounded, and wants to know who applies', () => {
  const refused = expect.objectContaining({ code: 'INVALID_ARGUMENT' })
  const wide = { spec: Object.fromEntries(Array.from({ length: 10_001 }, (_, i) => [`f${i}`, i])) }
  expect(() => applyFields({}, {}, wide, 'a', false)).toThrow(refused)
  expect(() => applyFields({}, {}, {}, '', false)).toThrow(refused)
  expect(() => applyFields({}, {}, {}, 'x'.repeat(254), false)).toThrow(refused)
})
