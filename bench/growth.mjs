// Growth: the cost of one unit of work when the amount of one thing grows a hundredfold. Each figure is the processor time per
// unit at the large size, divided by that at the small size; a missed bound fails the suite. REPRISE_BENCH_SCALE=0.1 makes a
// quick run.

import { createHash } from 'node:crypto'
import { feedStart, open, timeline } from '../dist/index.js'
import { aggregate, projection } from '../dist/layers/events/index.js'
import { job } from '../dist/layers/job/index.js'
import { queue, workflow } from '../dist/layers/workflow/index.js'
import { openPostgres } from '../dist/stores/postgres/index.js'
import { openSqlite } from '../dist/stores/sqlite/index.js'
import { longestStall } from './measure.mjs'
import { costByProcesses } from './support/processes.mjs'
import { serverCpu } from './support/server-cpu.mjs'
import { bareSqlite, benchPostgres, temporaryFolder } from './support/stores.mjs'

export const failsWhenMissed = true
export const eachInItsProcess = true

/**
 * Bound of the longest time that the event loop stood still, at the large size, for figures whose cliff was such a stall.
 */
const stall = { stallMs: { max: 100 } }

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

let stalled = 0

/** Milliseconds of processor time per unit, and the longest time that the event loop stood still meanwhile. */
async function cost(units, work) {
  const before = process.cpuUsage()
  const { stallMs } = await longestStall(work)
  stalled = stallMs
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1000 / units
}

/** The same work at three sizes, each in a store of its own. Warm-up compiles the code for all of them. */
function growth({ small, measure, within = withStore, factors = [1, 10, 100] }) {
  const [at1, at10, at100] = factors.map((factor) => times(small) * factor)
  return async () => {
    const at = async (count) => await within((rp, place) => measure(rp, count, place))
    await at(at1)
    const first = await at(at1)
    const tenfold = await at(at10)
    stalled = 0
    const hundredfold = await at(at100)
    const details = {
      msAt1: first,
      msAt10: tenfold,
      msAt100: hundredfold,
      growthAt10: tenfold / first,
      stallMs: stalled,
    }
    return { value: hundredfold / first, details }
  }
}

const hash = (bytes) => new Uint8Array(createHash('sha256').update(bytes).digest())
const claimed = 100
/** Puts back the timelines that the claims of one measurement took. */
const spare = 900

/**
 * Milliseconds per claim of a hundred timelines with this many due: the median of nine, because the server's own work
 * interferes.
 */
async function claimHundreds(store) {
  const took = []
  for (let round = 0; round < 9; round++) {
    const began = performance.now()
    const heads = await store.claim({ worker: 'w', queues: ['q'], limit: claimed })
    took.push(performance.now() - began)
    if (heads.length !== claimed) throw new Error(`${heads.length} of ${claimed} claimed`)
  }
  return took.sort((a, b) => a - b)[4]
}

async function withFile(body) {
  const place = temporaryFolder()
  try {
    return await body(place.path('ours.db'))
  } finally {
    place.remove()
  }
}

const ready = workflow('ready', async () => undefined)

async function claimOfMany(file, due) {
  const rp = await open(`sqlite:${file}`)
  await inGroups(due + spare, () => rp.run(ready, null, { here: false }), 500)
  await rp.close()
  const store = await openSqlite(file, { namespace: 'default', hash })
  const took = []
  for (let round = 0; round < 5; round++) {
    took.push(
      await cost(1, async () => {
        const heads = await store.claim({ worker: 'w', queues: ['workflow/ready'], limit: claimed })
        if (heads.length !== claimed) throw new Error(`${heads.length} of ${claimed} claimed`)
      }),
    )
  }
  await store.close()
  return took.sort((a, b) => a - b)[2]
}

let server = null
let schemas = 0

async function startServer() {
  server = await benchPostgres()
}

async function withSchema(body) {
  const schema = `growth${++schemas}`
  const store = await openPostgres(server.url, { namespace: 'default', schema, hash })
  try {
    return await body(store, schema)
  } finally {
    await store.close()
  }
}

async function fillDue(schema, due) {
  const { default: pg } = await import('pg')
  const client = new pg.Client(server.url)
  await client.connect()
  await client.query(`INSERT INTO ${schema}.timeline
    (ns, id, pos_base, epoch, digest, floor_digest, queue, wakeup, created_at, updated_at)
    SELECT 1, 't/' || i, 0, 1, '\\x00', '\\x00', 'q', i, 1, 1 FROM generate_series(1, ${due}) i`)
  await client.end()
}

async function claimOfManyThere(store, due, schema) {
  await fillDue(schema, due + spare)
  return await claimHundreds(store)
}

/** Milliseconds of the server's processor time per claimed timeline, with this many processes that claim at once. */
async function claimTogether(claimers) {
  const cpu = await serverCpu(server.url)
  if (!cpu) return null
  const due = times(6000)
  const schema = `growth${++schemas}`
  const openOne = () => openPostgres(server.url, { namespace: 'default', schema, hash })
  const stores = [await openOne()]
  while (stores.length < claimers) stores.push(await openOne())
  await fillDue(schema, due)
  const row = { name: 'w', host: 'h', process: 'p', leaseMs: 600_000, info: {}, progress: 0 }
  await Promise.all(stores.map((store, n) => store.beat({ ...row, id: `w${n}` })))
  let left = due
  const before = cpu()
  await Promise.all(
    stores.map(async (store, n) => {
      while (left > 0) {
        const heads = await store.claim({ worker: `w${n}`, queues: ['q'], limit: 50 })
        left -= heads.length
        if (heads.length === 0) await new Promise((resolve) => setTimeout(resolve, 5))
      }
    }),
  )
  const ms = (cpu() - before) / due
  if (left < 0) throw new Error(`${-left} were claimed twice`)
  for (const store of stores) await store.close()
  return ms
}

async function claimersRun() {
  await claimTogether(1)
  const [one, two, four] = [await claimTogether(1), await claimTogether(2), await claimTogether(4)]
  if (one === null) return { skip: 'the processes of the server cannot be seen' }
  return { value: four / one, details: { msAt1: one, msAt2: two, msAt4: four } }
}

const deadRow = { name: 'w', host: 'h', process: 'p', leaseMs: 1000, info: {}, progress: 0 }

/** One check for dead workers after this many workers started and ended, a minute apart. */
async function deadWorkers(file, count) {
  let minutes = 0
  const clock = () => Date.now() + minutes * 60_000
  const store = await openSqlite(file, { namespace: 'default', hash, clock })
  const comeAndGo = async () => {
    const id = `w${minutes++}`
    await store.beat({ ...deadRow, id })
    await store.retire([id])
    await store.workers()
  }
  for (let n = 0; n < count; n++) await comeAndGo()
  const ms = await cost(100, async () => {
    for (let n = 0; n < 100; n++) await comeAndGo()
  })
  await store.close()
  return ms
}

/** The same beside rows that an older version left, all at once: the first retirement removes them. */
async function deadWorkersThere(store, count, schema) {
  const { default: pg } = await import('pg')
  const client = new pg.Client(server.url)
  await client.connect()
  await client.query(`INSERT INTO ${schema}.worker
    (ns, id, name, host, process, lease_ms, progress, started_at, beat_at, progress_at, retired_at, info)
    SELECT 1, 'old' || i, 'w', 'h', 'p', 1000, 0, i, i, i, i, '{}' FROM generate_series(1, ${count}) i`)
  await store.beat({ ...deadRow, id: 'first' })
  await store.retire(['first'])
  // As the server does by itself within a minute after so many rows were deleted.
  await client.query(`VACUUM ${schema}.worker`)
  await client.end()
  const took = []
  for (let n = 0; n < 30; n++) {
    const began = performance.now()
    await store.beat({ ...deadRow, id: `w${n}` })
    await store.retire([`w${n}`])
    await store.workers()
    took.push(performance.now() - began)
  }
  return took.sort((a, b) => a - b)[15]
}

/** Processor time per run of all processes and the server together. */
function byProcesses(how) {
  return async ({ index }) => {
    const at = async (processes) =>
      await costByProcesses(server.url, { processes, each: times(500), how, namespace: `${how}-${index}-${processes}` })
    const [one, two, four] = [await at(1), await at(2), await at(4)]
    if (one === null) return { skip: 'the processes of the server cannot be seen' }
    const details = {
      msAt1: one.ms,
      msAt2: two.ms,
      msAt4: four.ms,
      serverMsAt1: one.serverMs,
      serverMsAt4: four.serverMs,
    }
    return { value: four.ms / one.ms, details }
  }
}

const log = timeline('log', {
  initial: () => ({ count: 0 }),
  apply: (state) => ({ count: state.count + 1 }),
})

async function opened(rp, count) {
  return await inGroups(count, (n) => rp.open(log, `l${n}`), 500)
}

/** Ten thousand appends, from one open timeline to the next, 64 at a time. */
async function appendInTurn(rp, count) {
  const handles = await opened(rp, count)
  let at = 0
  const appendSome = (some) => inGroups(some, () => handles[at++ % count].append({ type: 'noted' }), 64)
  await appendSome(count)
  return await cost(10_000, () => appendSome(10_000))
}

async function appendAtOnce(rp, count) {
  const handles = await opened(rp, count)
  const rounds = Math.ceil(10_000 / count)
  return await cost(rounds * count, async () => {
    for (let round = 0; round < rounds; round++)
      await Promise.all(handles.map((each) => each.append({ type: 'noted' })))
  })
}

async function endedRuns(rp, count) {
  return await inGroups(
    count,
    async (n) => {
      const run = await rp.run(short, n)
      await run.result()
      return run.id
    },
    500,
  )
}

async function feedOfNothing(rp, count) {
  await endedRuns(rp, count)
  const readAll = async () => {
    for (let [next, isEnd] = [feedStart, false]; !isEnd; ) {
      ;({ next, isEnd } = await rp.feed(next, { prefixes: ['nothing/'] }, 500))
    }
  }
  for (let n = 0; n < 500; n++) await readAll()
  return await cost(500, async () => {
    for (let n = 0; n < 500; n++) await readAll()
  })
}

/** The whole feed of a prefix that three timelines have; the last of them was written last. */
async function feedOfFew(store, count, schema) {
  const { default: pg } = await import('pg')
  const client = new pg.Client(server.url)
  await client.connect()
  const rows = (from, to, name) => `INSERT INTO ${schema}.timeline (ns, id, pos_base, seq, created_at, updated_at)
    SELECT 1, '${name}' || i, 0, 1, 1, 1 FROM generate_series(${from}, ${to}) i;
    INSERT INTO ${schema}.run (tid, last, first, pos, written_at, ns, digest, bytes)
    SELECT tid, 1, 1, pg_current_xact_id()::text::bigint, 1, 1, '\\x00', '\\x00' FROM ${schema}.timeline
    WHERE id LIKE '${name}%' AND tid > coalesce((SELECT max(tid) FROM ${schema}.run), 0) ORDER BY tid`
  await client.query(rows(1, 1, 'few/'))
  await client.query(rows(1, count, 'other/'))
  await client.query(rows(2, 3, 'few/'))
  await client.end()
  const took = []
  for (let n = 0; n < 15; n++) {
    const began = performance.now()
    let seen = 0
    for (let [next, isEnd] = [feedStart, false]; !isEnd; ) {
      const page = await store.feed(next, { prefixes: ['few/'] }, 500)
      seen += page.items.length
      ;({ next, isEnd } = page)
    }
    took.push(performance.now() - began)
    if (seen !== 3) throw new Error(`${seen} of 3 runs seen`)
  }
  return took.sort((a, b) => a - b)[7]
}

async function listNothing(file, count) {
  const rp = await open(`sqlite:${file}`)
  await endedRuns(rp, count)
  await rp.close()
  const store = await openSqlite(file, { namespace: 'default', hash })
  const list = async () => {
    for (let n = 0; n < 2000; n++) await store.timelines({ status: 'nobody', limit: 100 })
  }
  await list()
  const ms = await cost(2000, list)
  await store.close()
  return ms
}

/** In a process that did not execute them. */
async function firstResults(file, count) {
  const first = await open(`sqlite:${file}`)
  const ids = await endedRuns(first, count)
  await first.close()
  const rp = await open(`sqlite:${file}`)
  const some = ids.filter((_, n) => n % Math.ceil(count / 100) === 0)
  const ms = await cost(some.length, async () => {
    for (const [n, id] of some.entries()) await (await rp.run(short, n * Math.ceil(count / 100), { id })).result()
  })
  await rp.close()
  return ms
}

/** In groups: a program that starts many runs starts them neither one by one nor all at once. */
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

const short = workflow('short', async (ctx, n) => (n < 0 ? await ctx.sleep('30d') : await ctx.step('a', () => n)))

/** Runs of one workflow, so that they are in the same queue. */
async function claimBeside(rp, sleepers, place) {
  const other = await open(`sqlite:${place.path('ours.db')}`)
  await inGroups(sleepers, () => other.run(short, -1), 500)
  await other.close()
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

/** Two passes over all aggregates: one event of each, then another of each. */
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

/** As `reprise verify` does, in a process that did not write the store. */
async function verifyAll(file, count) {
  const first = await open(`sqlite:${file}`)
  await endedRuns(first, count)
  await first.close()
  const rp = await open(`sqlite:${file}`)
  const ms = await cost(count, async () => {
    const { ok } = await rp.verify()
    if (!ok) throw new Error('it is not sound')
  })
  await rp.close()
  return ms
}

async function skipFinished(rp, keys) {
  const items = Array.from({ length: keys }, (_, n) => `item-${n}`)
  const work = job('items', { source: items, key: (item) => item, each: () => undefined })
  await (await rp.run(work)).result()
  return await cost(keys, async () => await (await rp.run(work)).result())
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
    target: { valueMax: 2, details: stall },
    note: 'a queue that lets in four at a time, all entered at once',
    run: growth({ small: 100, measure: (rp, count) => runAll(rp, queued, count) }),
  },
  {
    name: 'queue-backlog-per-key',
    unit: '× per run',
    target: { valueMax: 2, details: stall },
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
    run: growth({ small: 1000, measure: claimBeside }),
  },
  {
    name: 'signals-in-a-loop',
    unit: '× per signal',
    target: { valueMax: 2, details: stall },
    note: 'one run that takes every signal',
    run: growth({ small: 300, measure: takeSignals }),
  },
  {
    name: 'projection-aggregates',
    unit: '× per event',
    target: { valueMax: 2, details: stall },
    note: 'two events of each aggregate, written in rounds',
    run: growth({ small: 600, measure: project }),
  },
  {
    name: 'job-skips-finished',
    unit: '× per key',
    target: { valueMax: 2, details: stall },
    note: 'a second run over items that are all done',
    run: growth({ small: 1000, measure: skipFinished }),
  },
  {
    name: 'verify',
    unit: '× per run',
    target: { valueMax: 2, details: stall },
    note: 'a verify of the whole store, ended runs of one step',
    run: growth({ small: 500, measure: verifyAll, within: withFile }),
  },
  {
    name: 'feed-analyzed',
    unit: '× per event',
    target: { valueMax: 2 },
    note: 'the feed of an analyzed file',
    run: growth({ small: 500, measure: readFeed }),
  },
  {
    name: 'claim-of-many-due',
    unit: '× per claim of 100',
    target: { valueMax: 2 },
    note: 'SQLite, 500 to 50,000 due',
    run: growth({ small: 500, measure: claimOfMany, within: withFile }),
  },
  {
    name: 'claim-of-many-due-postgres',
    unit: '× per claim of 100',
    target: { valueMax: 2 },
    note: 'PostgreSQL, 1,000 to 100,000 due; time, not processor time: the work is the server’s',
    setup: startServer,
    teardown: async () => await server?.stop(),
    run: growth({ small: 1000, measure: claimOfManyThere, within: withSchema }),
  },
  {
    name: 'claimers-postgres',
    unit: '× per claimed',
    target: { valueMax: 1.5 },
    note: 'processor time of the server with four that claim at once, over that with one',
    setup: startServer,
    teardown: async () => await server?.stop(),
    run: claimersRun,
  },
  {
    name: 'runs-by-processes-postgres',
    unit: '× per run',
    target: { valueMax: 1.5 },
    note: 'processor time of server, workers and the process that enters runs, with four workers that claim over one',
    setup: startServer,
    teardown: async () => await server?.stop(),
    run: byProcesses('claimed'),
  },
  {
    name: 'own-runs-by-processes-postgres',
    unit: '× per run',
    target: { valueMax: 1.5 },
    note: 'the same with processes that run what they start',
    setup: startServer,
    teardown: async () => await server?.stop(),
    run: byProcesses('own'),
  },
  {
    name: 'dead-workers',
    unit: '× per look',
    target: { valueMax: 2 },
    note: 'SQLite: a worker comes and goes and the list is read, after 200 to 2,000 others did: at first none is forgotten yet',
    run: growth({ small: 100, measure: deadWorkers, within: withFile, factors: [2, 10, 20] }),
  },
  {
    name: 'dead-workers-postgres',
    unit: '× per look',
    target: { valueMax: 2 },
    note: 'the same on PostgreSQL beside 500 to 50,000 rows of dead workers; time, not processor time',
    setup: startServer,
    teardown: async () => await server?.stop(),
    run: growth({ small: 500, measure: deadWorkersThere, within: withSchema }),
  },
  {
    name: 'open-timelines',
    unit: '× per append',
    target: { valueMax: 2 },
    note: '300 to 30,000 open in one process, appended to in turn, 64 at a time',
    run: growth({ small: 300, measure: appendInTurn }),
  },
  {
    name: 'appends-at-once',
    unit: '× per append',
    target: { valueMax: 2 },
    note: '10 to 1,000 timelines appended to at once',
    run: growth({ small: 10, measure: appendAtOnce }),
  },
  {
    name: 'feed-of-nothing',
    unit: '× per read',
    target: { valueMax: 2 },
    note: 'the whole feed by a prefix that nothing has',
    run: growth({ small: 100, measure: feedOfNothing }),
  },
  {
    name: 'feed-of-few-postgres',
    unit: '× per read',
    target: { valueMax: 2 },
    note: 'PostgreSQL: the whole feed by a prefix that three timelines have, beside 1,000 to 100,000 others; time, not processor time',
    setup: startServer,
    teardown: async () => await server?.stop(),
    run: growth({ small: 1000, measure: feedOfFew, within: withSchema }),
  },
  {
    name: 'list-of-nothing',
    unit: '× per list',
    target: { valueMax: 2 },
    note: 'a list by a status that nothing has',
    run: growth({ small: 100, measure: listNothing, within: withFile }),
  },
  {
    name: 'first-result',
    unit: '× per result',
    target: { valueMax: 2 },
    note: 'the first read of the result of a run that another process ended',
    run: growth({ small: 100, measure: firstResults, within: withFile }),
  },
]
