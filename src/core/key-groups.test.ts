import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { groupOf, groupsOf, hashKey, ownerOf } from './key-groups.ts'

const key = fc.oneof(fc.string({ unit: 'binary' }), fc.double({ noNaN: true }))

describe('key groups', () => {
  it('put a key into the same group for good', () => {
    // Stored state depends on these numbers: if this test fails, fix the code, not the test.
    expect(['', 'ann', 'order-42', 'ä', 0, 1, -1, 1.5].map(hashKey)).toMatchInlineSnapshot(`
      [
        2872998923,
        2778018533,
        779839703,
        2618739704,
        414626237,
        1074558254,
        4070397171,
        1980975724,
      ]
    `)
    expect(hashKey(-0)).toBe(hashKey(0))
    expect(hashKey('1')).not.toBe(hashKey(1))
  })

  it('belong to exactly one task, whatever the parallelism', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 300 }), fc.nat(), (groups, pick) => {
        const parallelism = 1 + (pick % groups)
        for (let task = 0, next = 0; task < parallelism; task++) {
          const { first, end } = groupsOf(task, parallelism, groups)
          expect(first).toBe(next)
          expect(end).toBeGreaterThan(first)
          for (let group = first; group < end; group++) expect(ownerOf(group, parallelism, groups)).toBe(task)
          next = end
          if (task === parallelism - 1) expect(end).toBe(groups)
        }
      }),
    )
  })

  it('hold every key', () => {
    fc.assert(
      fc.property(key, fc.integer({ min: 1, max: 32_768 }), (each, groups) => {
        const group = groupOf(each, groups)
        expect(Number.isInteger(group) && group >= 0 && group < groups).toBe(true)
      }),
    )
  })

  it('are filled evenly by keys that look alike', () => {
    const counts = new Array<number>(128).fill(0)
    for (let i = 0; i < 128_000; i++) counts[groupOf(`customer-${i}`, 128)]! += 1
    expect(Math.min(...counts)).toBeGreaterThan(800)
    expect(Math.max(...counts)).toBeLessThan(1200)
  })
})
