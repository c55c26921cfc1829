import { expect, it } from 'vitest'
import { type JsonPatch, jsonPatch, mergePatch } from './patch.ts'

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

// The examples of RFC 6902, appendix A, in its order.
it.each<[unknown, JsonPatch, unknown]>([
  [{ foo: 'bar' }, [{ op: 'add', path: '/baz', value: 'qux' }], { baz: 'qux', foo: 'bar' }],
  [{ foo: ['bar', 'baz'] }, [{ op: 'add', path: '/foo/1', value: 'qux' }], { foo: ['bar', 'qux', 'baz'] }],
  [{ baz: 'qux', foo: 'bar' }, [{ op: 'remove', path: '/baz' }], { foo: 'bar' }],
  [{ foo: ['bar', 'qux', 'baz'] }, [{ op: 'remove', path: '/foo/1' }], { foo: ['bar', 'baz'] }],
  [{ baz: 'qux', foo: 'bar' }, [{ op: 'replace', path: '/baz', value: 'boo' }], { baz: 'boo', foo: 'bar' }],
  [
    { foo: { bar: 'baz', waldo: 'fred' }, qux: { corge: 'grault' } },
    [{ op: 'move', from: '/foo/waldo', path: '/qux/thud' }],
    { foo: { bar: 'baz' }, qux: { corge: 'grault', thud: 'fred' } },
  ],
  [
    { foo: ['all', 'grass', 'cows', 'eat'] },
    [{ op: 'move', from: '/foo/1', path: '/foo/3' }],
    { foo: ['all', 'cows', 'eat', 'grass'] },
  ],
  [
    { baz: 'qux', foo: ['a', 2, 'c'] },
    [
      { op: 'test', path: '/baz', value: 'qux' },
      { op: 'test', path: '/foo/1', value: 2 },
    ],
    { baz: 'qux', foo: ['a', 2, 'c'] },
  ],
  [
    { foo: 'bar' },
    [{ op: 'add', path: '/child', value: { grandchild: {} } }],
    { foo: 'bar', child: { grandchild: {} } },
  ],
  [{ foo: 'bar' }, [{ op: 'add', path: '', value: 1 }], 1],
  [{ '/': 9, '~1': 10 }, [{ op: 'test', path: '/~01', value: 10 }], { '/': 9, '~1': 10 }],
  [{ foo: ['bar'] }, [{ op: 'add', path: '/foo/-', value: ['abc', 'def'] }], { foo: ['bar', ['abc', 'def']] }],
  [{ a: { b: 1 } }, [{ op: 'copy', from: '/a', path: '/c' }], { a: { b: 1 }, c: { b: 1 } }],
  [{ a: [1, 2] }, [{ op: 'replace', path: '/a/0', value: 9 }], { a: [9, 2] }],
  [{ a: null }, [{ op: 'replace', path: '/a', value: 1 }], { a: 1 }],
])('patches %j by %j into %j, and leaves what it was given', (target, patch, patched) => {
  const before = structuredClone(target)
  expect(jsonPatch(target, patch)).toEqual(patched)
  expect(target).toEqual(before)
})

it.each<[unknown, unknown, string]>([
  [{ baz: 'qux' }, [{ op: 'test', path: '/baz', value: 'bar' }], 'CONFLICT'],
  [{ foo: 'bar' }, [{ op: 'add', path: '/baz/bat', value: 'qux' }], 'CONFLICT'],
  [{ '/': 9, '~1': 10 }, [{ op: 'test', path: '/~01', value: '10' }], 'CONFLICT'],
  [{ a: [1] }, [{ op: 'add', path: '/a/2', value: 1 }], 'CONFLICT'],
  [{ a: [1] }, [{ op: 'remove', path: '/a/01' }], 'CONFLICT'],
  [{ a: 1 }, [{ op: 'remove', path: '/b' }], 'CONFLICT'],
  [{ a: 1 }, [{ op: 'replace', path: '/b', value: 1 }], 'CONFLICT'],
  [{ a: {} }, [{ op: 'move', from: '/a', path: '/a/b' }], 'INVALID_ARGUMENT'],
  [{ a: 1 }, [{ op: 'add', path: 'a', value: 1 }], 'INVALID_ARGUMENT'],
  [{ a: 1 }, [{ op: 'add', path: '/b' }], 'INVALID_ARGUMENT'],
  [{ a: 1 }, [{ op: 'spam', path: '/b' }], 'INVALID_ARGUMENT'],
  [{ a: 1 }, { op: 'add' }, 'INVALID_ARGUMENT'],
  [{ a: 1 }, [null], 'INVALID_ARGUMENT'],
])('refuses to patch %j by %j: %s', (target, patch, code) => {
  expect(() => jsonPatch(target, patch as JsonPatch)).toThrow(expect.objectContaining({ code }))
})

it('takes __proto__ for a name like any other', () => {
  const patch = JSON.parse('{"__proto__":{"polluted":1}}')
  const merged = mergePatch({ a: 1 }, patch) as object
  expect(Object.keys(merged)).toEqual(['a', '__proto__'])
  expect((merged as { polluted?: number }).polluted).toBeUndefined()
  jsonPatch({}, [{ op: 'add', path: '/__proto__', value: { polluted: 1 } }])
  expect(({} as { polluted?: number }).polluted).toBeUndefined()
})
