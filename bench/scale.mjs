// Scale: the cost of a run on one, two and four databases. This machine has few processors, so throughput would show nothing:
// the figure is processor time per run of three steps, of all processes together, and it must stay flat. Bytes and syncs of the
// servers' write-ahead logs are printed beside it; docs/scale.md calculates with them. REPRISE_BENCH_SCALE=0.1 for a quick run.

import pg from 'pg'
import { open } from '../dist/index.js'
import { queue, workflow } from '../dist/layers/workflow/index.js'
import { serverCpu } from './support/server-cpu.mjs'
import { temporaryFolder } from './support/stores.mjs'

const scale = Number(process.env.REPRISE_BENCH_SCALE ?? 1)
const runsOf = (count) => Math.max(50, Math.round(count * scale))

const three = workflow('three', async (ctx, n) => {
  const a = await ctx.step('a', () => n + 1)
  const b = await ctx.step('b', () => a + 1)
  return await ctx.step('c', () => b + 1)
})
const line = queue('line', { concurrency: 100 })
const queued = workflow('queued', async (ctx, n) => await ctx.step('a', () => n), { queue: line })

/** This many at once for each shard: a batch of the group commit is as large on four shards as on one. */
const atOnce = 100

async function runAll(rp, definition, count, shards) {
  const size = atOnce * shards
  for (let from = 0; from < count; from += size) {
    const length = Math.min(size, count - from)
    const some = Array.from({ length }, (_, i) => rp.run(definition, from + i, { id: `run-${from + i}` }))
    for (const run of await Promise.all(some)) await run.result()
  }
}

/** Milliseconds of this process per run; `around` measures other costs, once the store exists. */
async function costOn(shards, definition, count, around = (work) => work()) {
  const rp = await open({ shards, housekeeping: false })
  try {
    let cost = 0
    await around(async () => {
      const before = process.cpuUsage()
      await runAll(rp, definition, count, shards.length)
      const { user, system } = process.cpuUsage(before)
      cost = (user + system) / 1000 / count
    })
    return cost
  } finally {
    await rp.close()
  }
}

/** The same number of runs for each shard, on one of them and on all. */
function onFiles(shards, definition, perShard) {
  return async () => {
    const place = temporaryFolder()
    const files = (name, count) => Array.from({ length: count }, (_, i) => `sqlite:${place.path(`${name}-${i}.db`)}`)
    try {
      await costOn(files('warm', shards), definition, runsOf(perShard))
      const baseline = await costOn(files('one', 1), definition, runsOf(perShard) * shards)
      const value = await costOn(files('all', shards), definition, runsOf(perShard) * shards)
      return { value, baseline }
    } finally {
      place.remove()
    }
  }
}

/** Real servers, as many as shards. */
class Servers {
  #servers = []

  async start(count) {
    const { startServer } = await import('./support/postgres.mjs')
    for (let i = 0; i < count; i++) this.#servers.push(await startServer())
  }

  async stop() {
    for (const server of this.#servers.splice(0)) await server.stop()
  }

  async cost(count, runs) {
    const servers = this.#servers.slice(0, count)
    const schema = `scale_${Math.random().toString(36).slice(2)}`
    let [before, after] = [[], []]
    const figures = () => Promise.all(servers.map((server) => figuresOf(server.url)))
    const addresses = servers.map(({ url }) => `${url}?schema=${schema}`)
    const client = await costOn(addresses, three, runs, async (work) => {
      before = await figures()
      await work()
      after = await figures()
    })
    const sum = (pick) => after.reduce((all, each, i) => all + pick(each) - pick(before[i]), 0) / runs
    const server = sum(({ cpuMs }) => cpuMs)
    return { all: client + server, client, server, bytes: sum(({ bytes }) => bytes), syncs: sum(({ syncs }) => syncs) }
  }
}

async function figuresOf(url) {
  const client = new pg.Client(url)
  await client.connect()
  const { rows } = await client.query('SELECT wal_bytes::float8 AS bytes FROM pg_stat_wal')
  const { rows: synced } = await client
    .query('SELECT wal_sync::float8 AS syncs FROM pg_stat_wal')
    .catch(() => client.query("SELECT coalesce(sum(fsyncs), 0)::float8 AS syncs FROM pg_stat_io WHERE object = 'wal'"))
  await client.end()
  const cpu = await serverCpu(url)
  return { cpuMs: cpu?.() ?? 0, bytes: rows[0].bytes, syncs: synced[0].syncs }
}

function onServers(shards) {
  const servers = new Servers()
  return {
    setup: () => servers.start(shards),
    teardown: () => servers.stop(),
    async run() {
      const runs = runsOf(300) * shards
      await servers.cost(shards, runsOf(100))
      const one = await servers.cost(1, runs)
      const all = await servers.cost(shards, runs)
      const details = {
        ...{ clientMs: all.client, serverMs: all.server, walBytes: all.bytes, walSyncs: all.syncs },
        ...{ clientMsOn1: one.client, serverMsOn1: one.server, walBytesOn1: one.bytes, walSyncsOn1: one.syncs },
      }
      return { value: all.all, baseline: one.all, details }
    },
  }
}

const unit = 'CPU ms/run'
const flat = { ratioMax: 1.25 }

export default [
  { name: 'cpu-per-run-2-files', unit, target: flat, run: onFiles(2, three, 400) },
  { name: 'cpu-per-run-4-files', unit, target: flat, run: onFiles(4, three, 400) },
  {
    name: 'cpu-per-queued-run-4-files',
    unit,
    note: 'three messages a run, most of them to another shard',
    run: onFiles(4, queued, 100),
  },
  { name: 'cpu-per-run-2-servers', unit, target: flat, ...onServers(2) },
  { name: 'cpu-per-run-4-servers', unit, target: flat, ...onServers(4) },
]
