// Starts in the application's own transaction: as a share of the rate of a bare INSERT of the same bytes in that transaction,
// and the time from the commit to the first step, beside queues that start jobs in a transaction on the same server.

import { open } from '../dist/index.js'
import { workflow } from '../dist/layers/workflow/index.js'
import { within } from '../dist/within.js'
import { median, pair, perSecond } from './measure.mjs'
import { benchPostgres, loadSqlite, temporaryFolder } from './support/stores.mjs'
import { queues } from './support/within-peers.mjs'

const scale = Number(process.env.REPRISE_BENCH_SCALE ?? 1)
const times = (count) => Math.max(1, Math.round(count * scale))

const started = new Map()
const order = workflow('order', async (ctx, { id }) => {
  await ctx.step('first', () => started.get(id)?.())
})
const input = (id) => ({ id, lines: 'x'.repeat(200) })

/** Transactions per second with a start, beside those with a bare INSERT. Both warm up first. */
async function compare({ count, each, ours, bare, index }) {
  await each(ours)
  await each(bare)
  return await pair({
    value: () => perSecond(count, () => each(ours)),
    baseline: () => perSecond(count, () => each(bare)),
  })({ index })
}

let world
async function setupPostgres() {
  const server = await benchPostgres()
  if (!server.url) return
  const { default: pg } = await import('pg')
  const client = new pg.Client(server.url)
  await client.connect()
  await client.query(
    'CREATE TABLE IF NOT EXISTS bench_orders (id text); CREATE TABLE IF NOT EXISTS bench_bare (number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, verb text, target text, id text, data bytea)',
  )
  world = { server, client, rp: await open(server.url), count: 0 }
}

async function teardownPostgres() {
  if (!world) return
  await world.rp.close()
  await world.client.query('DROP TABLE bench_orders, bench_bare')
  await world.client.end()
  await world.server.stop()
  world = undefined
}

async function inPostgres({ index }) {
  if (!world) return { skip: 'there is no PostgreSQL' }
  const { client, rp } = world
  const count = times(400)
  const bytes = Buffer.alloc(JSON.stringify(input('o00000000')).length + 60, 'x')
  const each = async (request) => {
    for (let i = 0; i < count; i++) {
      const id = `o${world.count++}`
      await client.query('BEGIN')
      await client.query('INSERT INTO bench_orders VALUES ($1)', [id])
      await request(id)
      await client.query('COMMIT')
    }
  }
  const ours = (id) => within(rp, client).run(order, input(id), { id, here: false })
  const bare = (id) =>
    client.query('INSERT INTO bench_bare (verb, target, id, data) VALUES ($1, $2, $3, $4) RETURNING number', [
      ...['start', 'workflow/order', id, bytes],
    ])
  return await compare({ count, each, ours, bare, index })
}

async function inSqlite({ index }) {
  const place = temporaryFolder()
  const file = place.path('ours.db')
  const rp = await open(`sqlite:${file}`)
  const { DatabaseSync } = await loadSqlite()
  const db = new DatabaseSync(file)
  db.exec('PRAGMA synchronous = FULL; CREATE TABLE bench_orders (id TEXT)')
  db.exec('CREATE TABLE bench_bare (number INTEGER PRIMARY KEY, verb TEXT, target TEXT, id TEXT, data BLOB)')
  const count = times(1500)
  const bytes = Buffer.alloc(JSON.stringify(input('o00000000')).length + 60, 'x')
  let number = 0
  const each = async (request) => {
    for (let i = 0; i < count; i++) {
      const id = `o${number++}`
      db.exec('BEGIN IMMEDIATE')
      db.prepare('INSERT INTO bench_orders VALUES (?)').run(id)
      await request(id)
      db.exec('COMMIT')
    }
  }
  const ours = (id) => within(rp, db).run(order, input(id), { id, here: false })
  const insert = 'INSERT INTO bench_bare (verb, target, id, data) VALUES (?, ?, ?, ?) RETURNING number'
  const bare = async (id) => db.prepare(insert).all('start', 'workflow/order', id, bytes)
  try {
    return await compare({ count, each, ours, bare, index })
  } finally {
    db.close()
    await rp.close()
    place.remove()
  }
}

/** In ms; each start follows when the run of the previous one has begun. `start(id)` commits it. */
async function latencies(count, start) {
  const waits = []
  for (let i = 0; i < count; i++) {
    const id = `l${world.count++}`
    const begun = new Promise((resolve) => started.set(id, () => resolve(performance.now())))
    await start(id)
    const committedAt = performance.now()
    waits.push(Math.max(0, (await begun) - committedAt))
    started.delete(id)
  }
  waits.sort((a, b) => a - b)
  return { p50: median(waits), p99: waits[Math.floor(waits.length * 0.99)] }
}

function latencyBench(name) {
  let queue
  return {
    name: `commit-to-first-step-versus-${name}`,
    unit: 'ms',
    note: `median; the baseline is ${name} on the same server, with its shortest polling`,
    async setup() {
      await setupPostgres()
      if (!world) return
      world.rp.work([order])
      queue = await queues[name](world.server.url, (id) => started.get(id)?.())
    },
    async run() {
      if (!world) return { skip: 'there is no PostgreSQL' }
      if (!queue) return { skip: `${name} is not installed` }
      const { client, rp } = world
      const transaction = (request) => async (id) => {
        await client.query('BEGIN')
        await client.query('INSERT INTO bench_orders VALUES ($1)', [id])
        await request(id)
        await client.query('COMMIT')
      }
      const ours = transaction((id) => within(rp, client).run(order, input(id), { id }))
      const theirs = transaction((id) => queue.start(client, id))
      await latencies(20, ours)
      await latencies(3, theirs)
      const mine = await latencies(times(100), ours)
      const other = await latencies(times(20), theirs)
      return { value: mine.p50, baseline: other.p50, details: { p99: mine.p99, theirP99: other.p99 } }
    },
    async teardown() {
      await queue?.stop()
      await teardownPostgres()
    },
  }
}

export default [
  {
    name: 'start-in-transaction-postgres',
    unit: 'transactions/s',
    target: { ratioMin: 0.5 },
    note: 'BEGIN, an INSERT, a start, COMMIT; the baseline inserts the same bytes into a plain table',
    setup: setupPostgres,
    run: inPostgres,
    teardown: teardownPostgres,
  },
  {
    name: 'start-in-transaction-sqlite',
    unit: 'transactions/s',
    target: { ratioMin: 0.5 },
    note: 'the same in the file of the store, synchronous = FULL',
    run: inSqlite,
  },
  latencyBench('pg-boss'),
  latencyBench('graphile-worker'),
]
