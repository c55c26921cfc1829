import fc from 'fast-check'
import { expect, it } from 'vitest'
import { type JsonPatch, jsonPatch } from './json-patch.ts'

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

it.each(['__proto__', 'constructor', 'prototype', 'a/__proto__/b'])('refuses a path that names %s', (name) => {
  for (const operation of [
    { op: 'add', path: `/${name}`, value: 1 },
    { op: 'copy', from: '/a', path: `/${name}` },
    { op: 'move', from: `/${name}`, path: '/b' },
  ]) {
    const refused = expect.objectContaining({ code: 'INVALID_ARGUMENT' })
    expect(() => jsonPatch({ a: {} }, [operation] as JsonPatch)).toThrow(refused)
  }
})

it('reaches nothing that the value inherits, and no place that a list does not have', () => {
  for (const operation of [
    { op: 'add', path: '/toString/polluted', value: 1 },
    { op: 'remove', path: '/toString' },
    { op: 'copy', from: '/hasOwnProperty', path: '/b' },
    { op: 'replace', path: '/list/length', value: 0 },
    { op: 'replace', path: '/list/01', value: 0 },
    { op: 'replace', path: '/list/-', value: 0 },
    { op: 'copy', from: '/list/0', path: '/list/9' },
    { op: 'move', from: '/list/0', path: '/list/3' },
    { op: 'move', from: '/list/0', path: '/list/x' },
    { op: 'add', path: '/text/0', value: 'x' },
  ]) {
    const refused = expect.objectContaining({ code: 'CONFLICT' })
    expect(() => jsonPatch({ text: 'abc', list: [1, 2, 3] }, [operation] as JsonPatch)).toThrow(refused)
  }
  expect('polluted' in Object.prototype.toString).toBe(false)
})

it('loses no property __proto__ silently', () => {
  const value = JSON.parse('{"__proto__":{"polluted":1}}')
  const refused = expect.objectContaining({ code: 'INVALID_ARGUMENT' })
  expect(() => jsonPatch({}, [{ op: 'add', path: '/a', value: [value] }])).toThrow(refused)
  expect(() => jsonPatch({ a: value }, [{ op: 'copy', from: '/a', path: '/b' }])).toThrow(refused)
  expect(({} as { polluted?: number }).polluted).toBeUndefined()
})

it('is bounded: operations, length of a path, what copies add, depth, and the cost of a comparison', () => {
  const refused = expect.objectContaining({ code: 'INVALID_ARGUMENT' })
  const many = (length: number, operation: object) => Array.from({ length }, () => operation) as unknown as JsonPatch
  const test = { op: 'test', path: '/a', value: 'x' }
  expect(jsonPatch({ a: 'x' }, many(10_000, test))).toEqual({ a: 'x' })
  expect(() => jsonPatch({ a: 'x' }, many(10_001, test))).toThrow(refused)
  expect(() => jsonPatch({}, [{ op: 'add', path: '/a'.repeat(101), value: 1 }])).toThrow(refused)
  expect(() => jsonPatch({ a: ['x'] }, many(60, { op: 'copy', from: '/a', path: '/a/-' }))).toThrow(refused)
  expect(() => jsonPatch({ a: {} }, many(200, { op: 'copy', from: '', path: '/a/b' }))).toThrow(refused)
  const list = Array.from({ length: 50_000 }, (_, i) => i)
  const other = { op: 'test' as const, path: '/list', value: list.map((i) => i + 1) }
  expect(() => jsonPatch({ list }, [other])).toThrow(expect.objectContaining({ code: 'CONFLICT' }))
})

it('gives JSON or refuses, whatever the patch, and changes nothing that it was given', () => {
  const part = fc.constantFrom('a', 'b', '0', '1', '-', 'length', 'toString', '__proto__', '~0', '')
  const path = fc.array(part, { maxLength: 3 }).map((parts) => parts.map((one) => `/${one}`).join(''))
  const operation = fc.record({
    op: fc.constantFrom('add', 'remove', 'replace', 'move', 'copy', 'test'),
    path,
    from: path,
    value: fc.jsonValue({ maxDepth: 2 }),
  })
  fc.assert(
    fc.property(fc.array(operation, { maxLength: 6 }), (patch) => {
      const target = { a: { b: [1, { a: 2 }] }, b: ['x', 'y'], '~': 1, '': null }
      const before = structuredClone(target)
      try {
        const patched = jsonPatch(target, patch as unknown as JsonPatch)
        expect(JSON.parse(JSON.stringify(patched))).toEqual(patched)
      } catch (error) {
        expect(['CONFLICT', 'INVALID_ARGUMENT']).toContain((error as { code?: string }).code)
      }
      expect(target).toEqual(before)
      expect(Object.keys(Object.prototype)).toEqual([])
    }),
    { numRuns: 500 },
  )
})
