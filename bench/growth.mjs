// Growth: what one unit of work costs when there is a hundred times as much of one thing as before. Each figure is the
// processor time per unit at the large size over that at the small one; a bound on it that is missed fails the suite.
// REPRISE_BENCH_SCALE=0.1 for a quick look.

import { feedStart, open } from '../dist/index.js'
import { aggregate, projection } from '../dist/layers/events/index.js'
import { job } from '../dist/layers/job/index.js'
import { queue, workflow } from '../dist/layers/workflow/index.js'
import { bareSqlite, temporaryFolder } from './support/stores.mjs'

export const failsWhenMissed = true

const scale = Number(process.env.REPRISE_BENCH_SCALE ?? 1)
const times = (count) => Math.max(10, Math.round(count * scale))

async function withStore(body) {
  const place = temporaryFolder()
  const rp = await open(`sqlite:${place.path('ours.db')}`)
  try {
    return await body(rp, place)
  } finally {
    await rp.close()
    place.remove()
  }
}

/** Milliseconds of processor time per unit. */
async function cost(units, work) {
  const before = process.cpuUsage()
  await work()
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1000 / units
}

/** The same work at three sizes, each in a store of its own; what is compiled by then is compiled for all of them. */
function growth({ small, measure }) {
  const [at1, at10, at100] = [1, 10, 100].map((factor) => times(small) * factor)
  return async () => {
    await withStore((rp, place) => measure(rp, at1, place))
    const first = await withStore((rp, place) => measure(rp, at1, place))
    const tenfold = await withStore((rp, place) => measure(rp, at10, place))
    const hundredfold = await withStore((rp, place) => measure(rp, at100, place))
    const details = { msAt1: first, msAt10: tenfold, msAt100: hundredfold, growthAt10: tenfold / first }
    return { value: hundredfold / first, details }
  }
}

/** In groups: a program that starts many runs does not start them one by one, nor all at once. */
async function inGroups(count, call, size = 100) {
  const made = []
  for (let from = 0; from < count; from += size) {
    const length = Math.min(size, count - from)
    made.push(...(await Promise.all(Array.from({ length }, (_, index) => call(from + index)))))
  }
  return made
}

const line = queue('line', { concurrency: 4 })
const lineByKey = queue('line-by-key', { concurrency: 4, perKey: 1 })
const queued = workflow('queued', async (ctx, n) => await ctx.step('a', () => n), { queue: line })
const queuedByKey = workflow('queued-by-key', async (ctx, n) => await ctx.step('a', () => n), { queue: lineByKey })

async function runAll(rp, definition, count, options = () => ({})) {
  return await cost(count, async () => {
    const runs = await inGroups(count, (n) => rp.run(definition, n, options(n)))
    await Promise.all(runs.map((run) => run.result()))
  })
}

const sleeper = workflow('sleeper', async (ctx) => await ctx.sleep('30d'))
const short = workflow('short', async (ctx, n) => await ctx.step('a', () => n))

async function claimBeside(rp, sleepers) {
  await inGroups(sleepers, () => rp.run(sleeper, null), 500)
  const runs = await inGroups(200, (n) => rp.run(short, n, { here: false }))
  return await cost(200, async () => {
    rp.work([short])
    await Promise.all(runs.map((run) => run.result()))
  })
}

const collector = workflow('collector', async (ctx, count) => {
  let sum = 0
  for (let n = 0; n < count; n++) sum += await ctx.signal('add')
  return sum
})

async function takeSignals(rp, count) {
  return await cost(count, async () => {
    const run = await rp.run(collector, count)
    await inGroups(count, (n) => run.signal('add', n))
    await run.result()
  })
}

const counter = aggregate('counter', {
  initial: () => ({ count: 0 }),
  evolve: { added: (state) => ({ count: state.count + 1 }) },
  decide: { add: () => ({ type: 'added' }) },
})

/** Twice over all of them: an event of each, then another of each. */
async function project(rp, aggregates) {
  for (let round = 0; round < 2; round++) {
    await inGroups(aggregates, async (n) => {
      const handle = await rp.open(counter, `c${n}`)
      await handle.do('add', {})
      await handle.close()
    })
  }
  const seen = projection('seen', {
    from: [counter],
    initial: () => ({ events: 0 }),
    on: { added: (state) => ({ events: state.events + 1 }) },
  })
  return await cost(2 * aggregates, async () => {
    const handle = await rp.open(seen)
    await handle.catchUp()
    await handle.close()
  })
}

async function skipFinished(rp, keys) {
  const items = Array.from({ length: keys }, (_, n) => `item-${n}`)
  const work = job('items', { source: items, key: (item) => item, each: () => undefined })
  await (await rp.run(work, {})).result()
  return await cost(keys, async () => await (await rp.run(work, {})).result())
}

/** With the statistics that ANALYZE leaves, from which SQLite may choose another plan. */
async function readFeed(rp, entries, place) {
  const writer = workflow('writer', async (ctx, count) => {
    for (let n = 0; n < count; n++) await ctx.step('s', () => n)
  })
  await (await rp.run(writer, entries)).result()
  const { db } = await bareSqlite(place.path('ours.db'))
  db.exec('ANALYZE')
  db.close()
  let seen = 0
  const ms = await cost(1, async () => {
    for (let page = { next: feedStart, items: null }; page.items?.length !== 0; seen += page.items.length) {
      page = await rp.feed(page.next, {}, 500)
    }
  })
  return ms / seen
}

export const benches = [
  {
    name: 'queue-backlog',
    unit: '× per run',
    target: { valueMax: 2 },
    note: 'a queue that lets in four at a time, all entered at once',
    run: growth({ small: 100, measure: (rp, count) => runAll(rp, queued, count) }),
  },
  {
    name: 'queue-backlog-per-key',
    unit: '× per run',
    target: { valueMax: 2 },
    note: 'the same with one at a time per key, a hundred keys',
    run: growth({
      small: 100,
      measure: (rp, count) => runAll(rp, queuedByKey, count, (n) => ({ queueKey: `k${n % 100}` })),
    }),
  },
  {
    name: 'claim-beside-sleepers',
    unit: '× per claimed run',
    target: { valueMax: 2 },
    note: '200 runs claimed beside runs that sleep for a month',
    run: growth({ small: 500, measure: claimBeside }),
  },
  {
    name: 'signals-in-a-loop',
    unit: '× per signal',
    target: { valueMax: 2 },
    note: 'one run that takes every signal',
    run: growth({ small: 100, measure: takeSignals }),
  },
  {
    name: 'projection-aggregates',
    unit: '× per event',
    target: { valueMax: 2 },
    note: 'two events of each aggregate, written in rounds',
    run: growth({ small: 300, measure: project }),
  },
  {
    name: 'job-skips-finished',
    unit: '× per key',
    target: { valueMax: 2 },
    note: 'a second run over items that are all done',
    run: growth({ small: 1000, measure: skipFinished }),
  },
  {
    name: 'feed-analyzed',
    unit: '× per event',
    target: { valueMax: 2 },
    note: 'the feed of an analyzed file',
    run: growth({ small: 500, measure: readFeed }),
  },
]
