import fc from 'fast-check'
import { expect, test } from 'vitest'
import { isReprise } from './errors.ts'
import { withField } from './field-edit.ts'

const name = fc.constantFrom('a', 'b', '0', '1', '__proto__', 'constructor')
const tree = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 3 },
    fc.integer(),
    fc.constant(null),
    fc.array(tie('value'), { maxLength: 3 }),
    fc.array(fc.tuple(name, tie('value')), { maxLength: 3 }).map((pairs) => Object.fromEntries(pairs)),
  ),
})).value

const read = (value: unknown, names: readonly string[]): unknown =>
  names.reduce<unknown>((at, each) => Object.getOwnPropertyDescriptor(at as object, each)?.value, value)

test('a field is changed at its path and nowhere else, the old value stays as it was, or the edit is refused', () => {
  fc.assert(
    fc.property(tree, fc.array(name, { minLength: 1, maxLength: 3 }), fc.integer(), (value, names, to) => {
      const before = JSON.stringify(value)
      try {
        const after = withField(value, names.join('.'), { to })
        expect(read(after, names)).toBe(to)
        // The reverse change restores the original value: no other field moved.
        const was = read(value, names)
        if (was !== undefined) expect(withField(after, names.join('.'), { to: was })).toEqual(value)
        else expect(withField(after, names.join('.'), 'remove')).toEqual(value)
      } catch (error) {
        if (!isReprise(error, 'INVALID_ARGUMENT')) throw error
      }
      expect(JSON.stringify(value)).toBe(before)
    }),
  )
})

test('values that are not plain objects or lists are not searched, and stay whole beside an edit', () => {
  const at = new Date(5)
  const value = { at, list: [{ n: 1 }, new Map([['k', 1]])] }
  expect(withField(value, 'list.0.n', { to: 2 })).toEqual({ at, list: [{ n: 2 }, new Map([['k', 1]])] })
  expect(withField(value, 'list.1', 'remove')).toEqual({ at, list: [{ n: 1 }] })
  for (const path of ['at.x', 'list.1.k', 'list.7', 'list.-1', 'none.x', 'list.x']) {
    expect(() => withField(value, path, { to: 1 })).toThrow(/cannot be edited/)
  }
  expect(() => withField(value, 'none', 'remove')).toThrow(/has no none/)
})
