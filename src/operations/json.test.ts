// The JSON of values that plain JSON would change or refuse is the same with and without the shortcut.

import fc from 'fast-check'
import { expect, test } from 'vitest'
import { jsonOf, plain } from './json.ts'

const odd = fc.oneof(
  fc.bigInt(),
  fc.uint8Array(),
  fc.date({ noInvalidDate: false }),
  fc.constantFrom(Number.NaN, Number.POSITIVE_INFINITY, -0, undefined, null, new Error('no'), Symbol('s'), () => 1),
  fc.constantFrom(
    new Map([['a', 1n]]),
    new Set([1n]),
    { toJSON: () => 5 },
    new (class Point {
      x = 1n
    })(),
  ),
)
const { value } = fc.letrec((tie) => ({
  value: fc.oneof(
    { depthSize: 'small' },
    fc.jsonValue(),
    odd,
    fc.array(tie('value')),
    fc.dictionary(fc.string(), tie('value')),
  ),
}))

test('leaving out the replacer where nothing needs it changes nothing', () => {
  fc.assert(
    fc.property(value, (each) => {
      expect(jsonOf({ each })).toBe(JSON.stringify({ each }, plain))
    }),
  )
})

test('values nested deeper than they look are written as well', () => {
  let deep: unknown = 1n
  for (let n = 0; n < 100; n++) deep = [deep]
  expect(jsonOf(deep)).toBe(JSON.stringify(deep, plain))
})
