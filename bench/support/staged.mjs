// Pipelines for benches with threads: each thread loads this module.

import { collectSink, count, generatedSource, pipeline } from '../../dist/layers/pipeline/index.js'

const names = Array.from({ length: 10_000 }, (_, i) => `user-${i.toString(36)}`)
/** Scattered keys, without a pattern that favours a hash map. */
const nameOf = (n) => names[(Math.imul(n, 0x9e3779b1) >>> 0) % names.length]

/** Work of a known number of steps: a loop by the clock would measure other processes. */
export function work(steps, seed) {
  let value = seed | 0
  for (let i = 0; i < steps; i++) value = (Math.imul(value, 1664525) + 1013904223) | 0
  return value
}

const records = Number(process.env.REPRISE_BENCH_STAGED ?? 1_000_000)
const steps = Number(process.env.REPRISE_BENCH_STEPS ?? 4000)
export const counts = { mapping: Math.round(records / 5), counting: 5 * records, crossing: 5 * records }
const module = { module: import.meta.url, checkpoint: { every: '1s' } }
const numbers = (count) => generatedSource((n) => n, { count })

/** A map of a few microseconds per record. */
export const mapping = pipeline(
  'mapping',
  (p) => {
    p.from('numbers', numbers(counts.mapping))
      .rebalance()
      .map((n) => work(steps, n))
      .to('out', collectSink())
  },
  module,
)

export const counting = pipeline(
  'counting',
  (p) => {
    p.from('numbers', numbers(counts.counting))
      .keyBy(nameOf)
      .aggregate('counts', count())
      .filter(({ value }) => value < 0)
      .to('out', collectSink())
  },
  module,
)

/** A short key and a number, and nothing behind the crossing. */
export const crossing = pipeline(
  'crossing',
  (p) => {
    p.from('numbers', numbers(counts.crossing))
      .keyBy(nameOf)
      .filter(() => false)
      .to('out', collectSink())
  },
  module,
)
