// Results in memory: bounded by bytes, evicted least recently used first, and never returned once they are older than a
// moment.

import fc from 'fast-check'
import { expect, it } from 'vitest'
import { Recent } from './recent-results.ts'

it('returns the last put value, for a moment, and forgets on request', () => {
  const recent = new Recent<string>(100, 1000)
  recent.put('a', 'first', 10, 0)
  recent.put('a', 'second', 10, 500)
  expect([recent.get('a', 1500), recent.get('a', 1501), recent.get('a', 1501)]).toEqual(['second', null, null])
  recent.put('b', 'b', 10, 0)
  recent.forget('b')
  expect(recent.get('b', 0)).toBe(null)
})

it('stays within its bytes, and drops the least recently used result', () => {
  const recent = new Recent<string>(100, 1000)
  for (const key of ['a', 'b', 'c', 'd']) recent.put(key, key, 25, 0)
  expect(recent.get('a', 0)).toBe('a')
  recent.put('e', 'e', 25, 0)
  expect(['a', 'b', 'c', 'd', 'e'].map((key) => recent.get(key, 0))).toEqual(['a', null, 'c', 'd', 'e'])
  // A result that would evict most of the others is not kept.
  recent.put('large', 'large', 26, 0)
  expect([recent.get('large', 0), recent.get('e', 0)]).toEqual([null, 'e'])
})

it('is the newest part of everything that was put, whatever the order of puts and gets', () => {
  const action = fc.record({
    key: fc.integer({ min: 0, max: 9 }),
    bytes: fc.integer({ min: 1, max: 25 }),
    isGet: fc.boolean(),
  })
  fc.assert(
    fc.property(fc.array(action, { maxLength: 200 }), (actions) => {
      const recent = new Recent<number>(100, 1000)
      let known: { key: number; bytes: number }[] = []
      for (const { key, bytes, isGet } of actions) {
        const held = known.find((one) => one.key === key)
        if (isGet) {
          expect(recent.get(String(key), 0)).toBe(held ? held.bytes : null)
          if (held) known = [...known.filter((one) => one !== held), held]
          continue
        }
        recent.put(String(key), bytes, bytes, 0)
        known = [...known.filter((one) => one !== held), { key, bytes }]
        while (known.reduce((sum, one) => sum + one.bytes, 0) > 100) known.shift()
      }
    }),
  )
})
