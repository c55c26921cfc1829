// Unpacking a packed block returns the same block, for columns of any values.

import fc from 'fast-check'
import { expect, it } from 'vitest'
import { packBlock, unpackBlock } from './state-block.ts'

const key = fc.oneof(fc.string(), fc.double({ noNaN: true }))
const cell = fc.tuple(key, fc.oneof(fc.anything(), fc.double()))

it('returns the packed values, columns of numbers and others', () => {
  const block = fc.record({
    dropped: fc.array(fc.integer()),
    space: fc.integer(),
    cells: fc.array(cell, { maxLength: 20 }),
    deleted: fc.array(key, { maxLength: 20 }),
  })
  fc.assert(
    fc.property(block, ({ dropped, space, cells, deleted }) => {
      const whole = { dropped, space, keys: cells.map(([k]) => k), values: cells.map(([, v]) => v), deleted }
      expect(unpackBlock(packBlock(whole))).toEqual(whole)
    }),
  )
})

it('packs a column of numbers into one array of eight bytes each', () => {
  const keys = Array.from({ length: 8 }, (_, i) => i)
  expect(packBlock({ dropped: [], space: 0, keys, values: keys, deleted: [] })[2]).toBeInstanceOf(Float64Array)
})

it('refuses other bytes', () => {
  for (const wrong of [null, [], [[], 0, [1], [], []], ['x', 0, [], [], []]]) expect(() => unpackBlock(wrong)).toThrow()
})
