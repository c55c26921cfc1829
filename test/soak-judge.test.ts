// The judge of a soak must detect every leak that it is made for, and none in the noise of a busy machine.

import fc from 'fast-check'
import { expect, it } from 'vitest'
import { bounds, judge, warmUpShare } from '../scripts/soak/judge.mjs'

const count = 30
const noise = fc.array(fc.double({ min: -1, max: 1, noNaN: true }), { minLength: count, maxLength: count })
const figure = fc.constantFrom(...Object.keys(bounds))

/** A level, the noise of a busy machine, one window in ten far off (a fault in it), and a rise in all judged windows. */
function windowsOf(name: string, level: number, spread: number, noises: readonly number[], rise: number) {
  const judged = count - Math.ceil(count * warmUpShare)
  return noises.map((each, index) => {
    const outlier = index % 10 === 7 ? level * 5 : 0
    const at = Math.max(0, index - (count - judged)) / (judged - 1)
    return { [`worker.${name}`]: level + spread * each + outlier + rise * at }
  })
}

function allowedAt(name: string, level: number): number {
  return Math.max(bounds[name]!.least, bounds[name]!.share * level)
}

it('finds a leak of twice its bound in any figure, through noise and through windows with faults', () => {
  fc.assert(
    fc.property(figure, fc.double({ min: 1, max: 500, noNaN: true }), noise, (name, level, noises) => {
      const allowed = allowedAt(name, level)
      const [verdict] = judge(windowsOf(name, level, allowed / 4, noises, 2 * allowed + allowed / 2))
      expect(verdict).toMatchObject({ figure: `worker.${name}`, isFlat: false })
    }),
  )
})

it('calls noise flat, whatever its windows with faults show, and a fall too', () => {
  fc.assert(
    fc.property(
      figure,
      fc.double({ min: 1, max: 500, noNaN: true }),
      noise,
      fc.boolean(),
      (name, level, noises, falls) => {
        const allowed = allowedAt(name, level)
        const [verdict] = judge(windowsOf(name, level, allowed / 4, noises, falls ? -level / 2 : 0))
        expect(verdict!.isFlat).toBe(true)
      },
    ),
  )
})

it('leaves the warm-up out: a store that fills and then stays is flat', () => {
  const windows = Array.from({ length: count }, (_, index) => ({ storeMb: Math.min(index, 7) * 10 }))
  expect(judge(windows)[0]).toMatchObject({ isFlat: true, first: 70, last: 70 })
})

it('is not content with too few windows, nor with a figure that was hardly ever measured', () => {
  expect(judge([{ heapMb: 1 }, { heapMb: 1 }])[0]!.isFlat).toBe(false)
  const windows = Array.from({ length: count }, (_, index) => ({ heapMb: index % 10 === 0 ? 5 : undefined, bareMs: 1 }))
  const verdicts = new Map(judge(windows).map((each) => [each.figure, each]))
  expect(verdicts.get('heapMb')!.isFlat).toBe(false)
  expect(verdicts.get('bareMs')).toMatchObject({ isFlat: null, allowed: null })
})

it('sees a leak that ends in the middle as well as one that begins there', () => {
  const early = Array.from({ length: count }, (_, index) => ({ descriptors: 20 + Math.min(index, 18) }))
  const late = Array.from({ length: count }, (_, index) => ({ descriptors: 20 + Math.max(0, index - 15) }))
  expect([judge(early)[0]!.isFlat, judge(late)[0]!.isFlat]).toEqual([false, false])
})

it('takes a time that fell for no loss of speed, though the bare one beside it fell further', () => {
  const windowsWith = (appendMs: (at: number) => number) =>
    Array.from({ length: count }, (_, at) => ({ appendMs: appendMs(at), appendRatio: 3 + at / 10 }))
  const verdictOf = (windows: Record<string, number>[]) =>
    judge(windows).find(({ figure }) => figure === 'appendRatio')!
  expect(verdictOf(windowsWith((at) => 60 - at)).isFlat).toBe(true)
  expect(verdictOf(windowsWith((at) => 20 + at)).isFlat).toBe(false)
})
