import fc from 'fast-check'
import { expect, test } from 'vitest'
import { getFrom, putInto, type Trie, valuesOf } from './trie.ts'

// Pairs with equal 32-bit hashes.
const colliding = ['costarring', 'liquid', 'declinate', 'macallums', 'altarage', 'zinke']
const key = fc.oneof(fc.string(), fc.constantFrom('__proto__', 'constructor', '', ...colliding))

test('a trie answers like a Map, and every older version stays as it was', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(key, fc.nat())), (puts) => {
      const versions: { trie: Trie<number>; map: Map<string, number> }[] = [{ trie: undefined, map: new Map() }]
      for (const [id, value] of puts) {
        const last = versions.at(-1)!
        versions.push({ trie: putInto(last.trie, id, value), map: new Map(last.map).set(id, value) })
      }
      for (const { trie, map } of versions) {
        for (const [id] of puts) expect(getFrom(trie, id)).toBe(map.get(id))
        expect([...valuesOf(trie)].sort()).toEqual([...map.values()].sort())
      }
    }),
  )
})

test('keys with equal hashes are kept apart', () => {
  let trie: Trie<string>
  for (const id of colliding) trie = putInto(trie, id, id)
  for (const id of colliding) trie = putInto(trie, id, id.toUpperCase())
  expect(colliding.map((id) => getFrom(trie, id))).toEqual(colliding.map((id) => id.toUpperCase()))
  expect([...valuesOf(trie)]).toHaveLength(colliding.length)
})
