import { expect, it } from 'vitest'
import { mergePatch } from './merge-patch.ts'

// The table of RFC 7386, appendix A.
it.each([
  [{ a: 'b' }, { a: 'c' }, { a: 'c' }],
  [{ a: 'b' }, { b: 'c' }, { a: 'b', b: 'c' }],
  [{ a: 'b' }, { a: null }, {}],
  [{ a: 'b', b: 'c' }, { a: null }, { b: 'c' }],
  [{ a: ['b'] }, { a: 'c' }, { a: 'c' }],
  [{ a: 'c' }, { a: ['b'] }, { a: ['b'] }],
  [{ a: { b: 'c' } }, { a: { b: 'd', c: null } }, { a: { b: 'd' } }],
  [{ a: [{ b: 'c' }] }, { a: [1] }, { a: [1] }],
  [
    ['a', 'b'],
    ['c', 'd'],
    ['c', 'd'],
  ],
  [{ a: 'b' }, ['c'], ['c']],
  [{ a: 'foo' }, null, null],
  [{ a: 'foo' }, 'bar', 'bar'],
  [{ e: null }, { a: 1 }, { e: null, a: 1 }],
  [[1, 2], { a: 'b', c: null }, { a: 'b' }],
  [{}, { a: { bb: { ccc: null } } }, { a: { bb: {} } }],
])('merges %j with %j into %j', (target, patch, merged) => {
  expect(mergePatch(target, patch)).toEqual(merged)
})

it('takes __proto__ for a name like any other', () => {
  const patch = JSON.parse('{"__proto__":{"polluted":1}}')
  const merged = mergePatch({ a: 1 }, patch) as object
  expect(Object.keys(merged)).toEqual(['a', '__proto__'])
  expect((merged as { polluted?: number }).polluted).toBeUndefined()
})
