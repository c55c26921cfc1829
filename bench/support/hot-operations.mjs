// The hot operations that `npm run bench -- gate` compares between two builds. As a program it measures one of them: node
// hot-operations.mjs ROOT NAME prints the microseconds of processor time of one unit, on the build in the folder ROOT. Only
// exports that both builds have are used.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { median } from '../measure.mjs'
import { temporaryFolder } from './stores.mjs'

const chunks = 9

/** Each prepares its work on an open engine: `units` of work in one call of `work`. */
export const hotOperations = {
  'append-one-by-one': (load) => appends(load, { timelines: 1, perAppend: 1, rounds: 1500 }),
  'append-64-timelines': (load) => appends(load, { timelines: 64, perAppend: 1, rounds: 60 }),
  'append-256-entries': (load) => appends(load, { timelines: 1, perAppend: 256, rounds: 20 }),
  async '200-steps'({ rp, entry }) {
    const { workflow } = await entry('./workflow')
    const steps = workflow('steps', async (ctx, count) => {
      for (let i = 0; i < count; i++) await ctx.step('s', () => i)
    })
    return { units: 1000, work: () => times(5, async () => await (await rp.run(steps, 200)).result()) }
  },
  async 'run-of-three-steps'({ rp, entry }) {
    const { workflow } = await entry('./workflow')
    const three = workflow('three', async (ctx, n) => {
      const a = await ctx.step('a', () => n + 1)
      const b = await ctx.step('b', () => a + 1)
      return await ctx.step('c', () => b + 1)
    })
    const one = async (_, n) => await (await rp.run(three, n)).result()
    return { units: 100, work: () => Promise.all(Array.from({ length: 100 }, one)) }
  },
  async 'aggregate-command'({ rp, entry }) {
    const { aggregate } = await entry('./events')
    const account = aggregate('account', {
      initial: () => ({ balance: 0 }),
      evolve: { deposited: (s, e) => ({ balance: s.balance + e.amount }) },
      decide: { deposit: (_s, c) => ({ type: 'deposited', amount: c.amount, note: 'as agreed' }) },
    })
    const handle = await rp.open(account, 'a')
    return { units: 1000, work: () => times(1000, () => handle.do('deposit', { amount: 1 })) }
  },
  async 'job-item'({ rp, entry }) {
    const { job } = await entry('./job')
    let next = 0
    const trivial = (from) =>
      job(`trivial-${from}`, {
        source: Array.from({ length: 5000 }, (_, i) => `item-${from + i}`),
        concurrency: 1000,
        each: () => undefined,
      })
    const work = async () => {
      await (await rp.run(trivial(next))).result()
      next += 5000
    }
    return { units: 5000, work }
  },
  async 'table-set'({ rp, entry }) {
    const { table } = await entry('./table')
    const rows = await rp.open(table('rows', { checkpoint: {} }), 'all')
    let next = 0
    const set = () => rows.set(`key-${(next * 48_271) % 100_003}`, { name: `value of ${next}`, n: next++ })
    return { units: 5000, work: () => times(5, () => Promise.all(Array.from({ length: 1000 }, set))) }
  },
  async 'memo-hit'({ rp, entry }) {
    const { memo } = await entry('./memo')
    const handle = await rp.open(memo('small', { version: 1, cacheBytes: 0, run: (n) => ({ n, text: `result ${n}` }) }))
    return { units: 2000, work: () => times(2000, (i) => handle.call(i % 200)) }
  },
  async 'keyed-count'({ rp, entry }) {
    const { collectSink, count, generatedSource, pipeline } = await entry('./pipeline')
    let runs = 0
    const counting = (name) =>
      pipeline(name, (p) => {
        p.from(
          'numbers',
          generatedSource((n) => (n * 48_271) % 10_007, { count: 200_000 }),
        )
          .keyBy((key) => key)
          .aggregate('count', count())
          .filter(({ value }) => value < 0)
          .to('out', collectSink())
      })
    return {
      units: 200_000,
      work: () => rp.run(counting(`counting-${runs++}`), { checkpoint: { every: '1s' } }).result(),
    }
  },
}

async function appends({ rp, entry }, { timelines, perAppend, rounds }) {
  const { timeline } = await entry('.')
  const notes = timeline('notes', {
    initial: () => ({ count: 0, length: 0 }),
    apply: (state, entry) => ({ count: state.count + 1, length: state.length + entry.text.length }),
  })
  const handles = []
  for (let i = 0; i < timelines; i++) handles.push(await rp.open(notes, `t${i}`))
  const entries = Array.from({ length: perAppend }, (_, i) => ({ type: 'noted', text: `entry ${i} of an append` }))
  const given = perAppend === 1 ? entries[0] : entries
  const write = (handle) => times(rounds, () => handle.append(given))
  return { units: timelines * perAppend * rounds, work: () => Promise.all(handles.map(write)) }
}

async function times(count, work) {
  for (let i = 0; i < count; i++) await work(i)
}

if (process.argv[1] === import.meta.filename) {
  const [root, name] = process.argv.slice(2)
  const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  const entry = async (path) => await import(pathToFileURL(join(root, exports[path].default)).href)
  const place = temporaryFolder()
  const rp = await (await entry('.')).open(`sqlite:${place.path('hot.db')}`, { housekeeping: false })
  try {
    const { units, work } = await hotOperations[name]({ rp, entry })
    for (let warmup = 0; warmup < 3; warmup++) await work()
    const costs = []
    for (let chunk = 0; chunk < chunks; chunk++) {
      const before = process.cpuUsage()
      await work()
      const { user, system } = process.cpuUsage(before)
      costs.push((user + system) / units)
    }
    console.log(median(costs))
  } finally {
    await rp.close()
    place.remove()
  }
}
