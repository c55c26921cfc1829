import fc from 'fast-check'
import { expect, it } from 'vitest'
import { copyJson, equalJson } from './json.ts'
import { undone, undoOf } from './json-undo.ts'

const json = fc.jsonValue({ maxDepth: 4 }).map((value) => copyJson(value, 'a value'))

it('converts any value back from any other', () => {
  fc.assert(
    fc.property(json, json, (before, after) => {
      const undo = undoOf(after, before)
      expect(undo === null).toBe(equalJson(after, before))
      expect(equalJson(undone(after, undo), before)).toBe(true)
    }),
  )
})

it('is small where little changed', () => {
  const before = { spec: { image: 'a', env: { big: 'x'.repeat(1000) } }, status: { ready: 1 } }
  const after = { ...before, status: { ready: 2 }, extra: 1 }
  expect(undoOf(after, before)).toEqual({ d: ['extra'], n: { status: { s: { ready: 1 } } } })
})

it('locates values that are not JSON', () => {
  const refused = (value: unknown) => () => copyJson(value, 'spec')
  expect(refused({ a: [1, new Date(0)] })).toThrow(/spec\.a\[1\] must be JSON \(got Date\)/)
  expect(refused(Number.NaN)).toThrow(/must be JSON/)
  expect(refused({ a: () => 1 })).toThrow(/spec\.a must be JSON \(got function\)/)
  const circle: Record<string, unknown> = {}
  circle.self = circle
  expect(refused(circle)).toThrow(/nested deeper/)
  expect(copyJson({ a: undefined, b: -0 }, 'spec')).toEqual({ b: 0 })
})
