// Jobs: the cost of recording every item, the cost of a second run, the memory of the finished keys, and the start-up time of
// the command line. REPRISE_BENCH_ITEMS and REPRISE_BENCH_KEYS make it smaller for a quick run.

import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { measure } from './support/job.mjs'

const items = Number(process.env.REPRISE_BENCH_ITEMS ?? 1_000_000)
const keys = Number(process.env.REPRISE_BENCH_KEYS ?? 5_000_000)
const bin = fileURLToPath(new URL('../dist/cli/bin.cjs', import.meta.url))

/** Each side in a process of its own, taking turns at going first. */
const turns =
  (value, baseline) =>
  ({ index }) => {
    if (index % 2 === 1) {
      const first = baseline()
      return { value: value(), baseline: first }
    }
    const first = value()
    return { value: first, baseline: baseline() }
  }

const elapsed = (args) => {
  const startedAt = performance.now()
  const run = spawnSync(process.execPath, args, { stdio: 'ignore' })
  if (run.status !== 0) throw new Error(`${args.join(' ')} ended with ${run.status}`)
  return performance.now() - startedAt
}

export default [
  {
    name: 'items-trivial',
    unit: 'items/s',
    target: { ratioMin: 0.3 },
    note: `${items.toLocaleString('en-US')} items that do nothing, 1,000 in flight; over bare inserts of the same keys in transactions of 1,000`,
    run: turns(
      () => measure('items', { count: items }).perSecond,
      () => measure('inserts', { count: items }).perSecond,
    ),
  },
  {
    name: 'items-trivial-over-file',
    unit: 'items/s',
    target: { ratioMin: 20 },
    note: 'the same, over a hand-written JSON Lines progress file with one fsync an item',
    run: turns(
      () => measure('items', { count: Math.min(items, 200_000) }).perSecond,
      () => measure('progressFile', { count: 5000 }).perSecond,
    ),
  },
  {
    name: 'skip-rate',
    unit: 'items/s',
    note: `a second run, in a new process' engine, over ${items.toLocaleString('en-US')} finished items`,
    run: () => ({ value: measure('skip', { count: items }).perSecond }),
  },
  {
    name: 'memory-5m-keys',
    unit: 'bytes',
    target: { valueMax: 200 * 1024 * 1024 },
    note: `peak growth of resident memory over ${keys.toLocaleString('en-US')} finished keys`,
    run: () => ({ value: measure('memory', { count: keys }).growthBytes }),
  },
  {
    name: 'cli-start',
    unit: 'ms',
    target: { details: { overMs: { max: 100 } } },
    note: 'reprise --version over bare node; overMs is the difference',
    run: ({ index }) => {
      const own = () => Math.min(...Array.from({ length: 5 }, () => elapsed([bin, '--version'])))
      const bare = () => Math.min(...Array.from({ length: 5 }, () => elapsed(['-e', '0'])))
      const baseline = index % 2 === 1 ? bare() : null
      const value = own()
      const under = baseline ?? bare()
      return { value, baseline: under, details: { overMs: value - under } }
    },
  },
]
