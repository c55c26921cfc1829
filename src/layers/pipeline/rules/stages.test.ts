import fc from 'fast-check'
import { expect, it } from 'vitest'
import { disorderedBranches, isCrossing, type StagePart, stagesOf } from './stages.ts'

/** A random graph whose widths are what keys make of them: several instances only behind a key or behind several instances. */
const graphs = fc
  .array(fc.record({ isExchange: fc.boolean(), isSingle: fc.boolean(), picks: fc.array(fc.nat(), { maxLength: 3 }) }), {
    minLength: 1,
    maxLength: 14,
  })
  .map((drawn) => {
    const parts: StagePart[] = [{ name: 'source', width: 1, isExchange: false, from: [] }]
    for (const [i, { isExchange, isSingle, picks }] of drawn.entries()) {
      const from = (picks.length === 0 ? [i] : picks).map((pick) => pick % parts.length)
      const isBehindKeys = from.every((each) => parts[each]!.isExchange || parts[each]!.width > 1)
      parts.push({ name: `part-${i}`, width: isBehindKeys && !isSingle ? 4 : 1, isExchange, from })
    }
    return parts
  })

const part = (name: string, width: number, from: readonly number[], isExchange = false): StagePart => ({
  ...{ name, width, isExchange, from },
})

it('A9.3: stages only rise along a stream, and records change instances exactly where they rise', () => {
  fc.assert(
    fc.property(graphs, (parts) => {
      const stages = stagesOf(parts)
      for (const [i, { from }] of parts.entries()) {
        for (const each of from) {
          expect(stages[i]!).toBeGreaterThanOrEqual(stages[each]! + (isCrossing(parts[each]!, parts[i]!) ? 1 : 0))
        }
        const reasons = from.map((each) => stages[each]! + (isCrossing(parts[each]!, parts[i]!) ? 1 : 0))
        expect(stages[i]).toBe(Math.max(0, ...reasons))
        // Parts that call each other have the same instances.
        const fused = from.filter((each) => stages[each] === stages[i])
        for (const each of fused) expect(parts[each]!.width).toBe(parts[i]!.width)
      }
    }),
  )
})

it('fuses neighbours with the same instances, and cuts at each key and where results meet in one instance', () => {
  const parts = [
    part('source', 1, []),
    part('map', 1, [0]),
    part('keyBy#1', 1, [1], true),
    part('counts', 4, [2]),
    part('filter', 4, [3]),
    part('keyBy#2', 4, [4], true),
    part('sums', 4, [5]),
    part('sink', 1, [6]),
  ]
  expect(stagesOf(parts)).toEqual([0, 0, 0, 1, 1, 1, 2, 3])
  expect(disorderedBranches(parts)).toBeNull()
})

it('finds branches that meet again after different numbers of stages, and no others', () => {
  const joined = (inputs: readonly number[]) => [
    part('source', 1, []),
    part('keyBy#1', 1, [0], true),
    part('keyBy#2', 1, [0], true),
    part('totals', 4, [1]),
    part('keyBy#3', 4, [3], true),
    part('join', 4, inputs),
    part('sink', 1, [5]),
  ]
  expect(disorderedBranches(joined([1, 2]))).toBeNull()
  expect(disorderedBranches(joined([2, 3]))).toBeNull()
  expect(disorderedBranches(joined([2, 4]))).toEqual({ fork: 'source', meeting: 'join' })
  // Both branches pass the same stages from the fork to where they meet.
  const behind = [
    part('source', 1, []),
    part('keyBy#1', 1, [0], true),
    part('totals', 4, [1]),
    part('keyBy#2', 4, [2], true),
    part('keyBy#3', 4, [2], true),
    part('union', 4, [3, 4]),
  ]
  expect(disorderedBranches(behind)).toBeNull()
})
