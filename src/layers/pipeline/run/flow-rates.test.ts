import fc from 'fast-check'
import { expect, it } from 'vitest'
import type { Output } from '../batch.ts'
import { Busy, newCounts, watermarkOf } from './computing-time.ts'
import { type Sample, sharesOf } from './flow-rates.ts'

const nothing: Output = { batch() {}, watermark() {}, idle() {} }
const batch = { values: [1, 2], times: null, keys: null }

it('a part is charged for its call without the calls it makes, also if they fail', () => {
  let now = 0
  const busy = new Busy(() => now)
  const [first, second] = [newCounts(), newCounts()]
  const takesFive = () => {
    now += 5
  }
  const inner = busy.counted({ ...nothing, batch: takesFive }, second)
  const outer = busy.counted(
    {
      ...nothing,
      batch(given) {
        now += 2
        inner.batch(given)
        now += 1
        throw new Error('after it')
      },
    },
    first,
  )
  expect(() => outer.batch(batch)).toThrow('after it')
  now += 100
  inner.batch(batch)
  expect([first.busyMs, second.busyMs]).toEqual([3, 10])
  expect([first.records, second.records]).toEqual([2, 4])
})

it('the watermark of a part is the lowest of its inputs, and none before all have one or after their end', () => {
  const busy = new Busy(() => 0)
  const counts = newCounts()
  const [left, right] = [busy.counted({ ...nothing }, counts), busy.counted({ ...nothing }, counts)]
  left.watermark(10)
  expect(watermarkOf(counts)).toBe(null)
  right.watermark(7)
  expect(watermarkOf(counts)).toBe(7)
  right.watermark(Number.POSITIVE_INFINITY)
  expect(watermarkOf(counts)).toBe(10)
  left.watermark(Number.POSITIVE_INFINITY)
  expect(watermarkOf(counts)).toBe(null)
})

const chain = new Map([
  ['in', { kind: 'source', to: ['map'], below: new Set(['map', 'out']) }],
  ['map', { kind: 'operator', to: ['out'], below: new Set(['out']) }],
  ['out', { kind: 'sink', to: [], below: new Set<string>() }],
] as const)

function sample(elapsedMs: number, figures: readonly (readonly [number, number, number])[], waitedMs: number): Sample {
  const parts = [...chain.keys()].map((name, i) => {
    const [records, busyMs, ownMs] = figures[i]!
    const known = { watermark: null, lagMs: null, keys: 0, inFlight: 0, isEnded: false }
    return { name, records, busyMs, waitedMs: ownMs, ...known }
  })
  return { elapsedMs, parts, checkpointsMs: 0, waitedMs }
}

it('the awaited part is busy, and the parts before it are held back', () => {
  const before = sample(
    1000,
    [
      [10, 5, 0],
      [10, 5, 0],
      [10, 5, 0],
    ],
    0,
  )
  const now = sample(
    2000,
    [
      [60, 105, 0],
      [60, 205, 0],
      [60, 5, 600],
    ],
    600,
  )
  const { spanMs, parts } = sharesOf(chain, before, now)
  expect(spanMs).toBe(1000)
  expect(parts.map(({ perSecond }) => perSecond)).toEqual([50, 50, 50])
  const shares = parts.map(({ busy, backpressured, idle }) =>
    [busy, backpressured, idle].map((n) => Math.round(n * 100)),
  )
  expect(shares).toEqual([
    [10, 60, 30],
    [20, 60, 20],
    [60, 0, 40],
  ])
})

it('shares make one, whatever overlapped', () => {
  const ms = fc.integer({ min: 0, max: 5000 })
  const figures = fc.array(fc.tuple(ms, ms, ms), { minLength: 3, maxLength: 3 })
  fc.assert(
    fc.property(ms, figures, ms, (spanMs, gained, waited) => {
      const before = sample(
        0,
        [
          [0, 0, 0],
          [0, 0, 0],
          [0, 0, 0],
        ],
        0,
      )
      for (const part of sharesOf(chain, before, sample(spanMs, gained, waited)).parts) {
        const { busy, backpressured, idle } = part
        expect(Math.min(busy, backpressured, idle)).toBeGreaterThanOrEqual(0)
        expect(busy + backpressured + idle).toBeCloseTo(1, 9)
      }
    }),
  )
})
