// The runner's own suite: fixed numbers, so that test/bench.test.ts can check its arithmetic and its verdicts.

import { pair } from './measure.mjs'

const order = []

export default [
  {
    name: 'median-of-ratios',
    unit: 'op/s',
    target: { ratioMin: 0.7 },
    note: 'the median of the ratios, not the ratio of the medians',
    run: ({ index }) => [9, 4, 5, 6, 100].map((value, i) => ({ value, baseline: [10, 5, 5, 8, 50][i] }))[index % 5],
  },
  { name: 'missed', unit: 'ms', target: { valueMax: 1 }, run: () => ({ value: 2 }) },
  {
    name: 'details',
    unit: 'bytes',
    target: { valueMax: 80, details: { stallMs: { max: 25 } } },
    run: ({ index }) => ({ value: 40, baseline: 20, details: { stallMs: 20 + index } }),
  },
  { name: 'skipped', unit: 'op/s', run: () => ({ skip: 'no such machine' }) },
  {
    name: 'takes-turns',
    unit: 'turns',
    // Returns 1 on both sides as long as the sides take turns at going first.
    run: async ({ index }) => {
      order.length = 0
      const sides = { value: () => order.push('value'), baseline: () => order.push('baseline') }
      await pair(sides)({ index })
      const isRight = order[0] === (index % 2 === 0 ? 'value' : 'baseline') && order.length === 2
      return { value: isRight ? 1 : 0, baseline: 1 }
    },
  },
]
