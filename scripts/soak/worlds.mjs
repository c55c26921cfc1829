// The stores of a soak, and the operations that only they have: cutting connections, locking, killing, and measuring the size of
// tables. `kind` is sqlite, postgres, or either of them as a set of three shards.

import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { serverCpu } from '../../bench/support/server-cpu.mjs'
import { benchPostgres, loadSqlite } from '../../bench/support/stores.mjs'

const shardCount = 3

export async function makeWorld(kind) {
  const count = kind.endsWith('-shards') ? shardCount : 1
  if (kind.startsWith('postgres')) return await postgresWorld(count)
  if (kind.startsWith('sqlite')) return await sqliteWorld(count)
  throw new Error(`--store must be sqlite, postgres, sqlite-shards or postgres-shards (got ${kind})`)
}

async function sqliteWorld(count) {
  const { DatabaseSync } = await loadSqlite()
  const folder = mkdtempSync(join(tmpdir(), 'reprise-soak-'))
  const paths = Array.from({ length: count }, (_, index) => join(folder, `soak-${index}.db`))
  const bytes = (name) => statSync(name, { throwIfNoEntry: false })?.size ?? 0
  const open = paths.map(() => null)
  const db = (index) => {
    open[index] ??= new DatabaseSync(paths[index])
    open[index].exec('PRAGMA busy_timeout = 1000')
    return open[index]
  }
  /** A suspended process may hold the lock for as long as it is suspended. */
  const all = async (work) => {
    const answers = []
    for (const [index, path] of paths.entries()) answers.push(await patiently(() => work(db(index), path)))
    return answers
  }
  const marks = (ids) => ids.map(() => '?').join(', ')
  return {
    url: addressOf(paths.map((path) => `sqlite:${path}`)),
    probeUrl: `sqlite:${join(folder, 'probe.db')}`,
    /** After the first open, which creates the files. */
    prepare: async () => void (await all((each) => each.exec('CREATE TABLE soak_booked (id TEXT)'))),
    sizes: async () => {
      const parts = await all((each, path) => {
        const { page_count: pages } = each.prepare('PRAGMA page_count').get()
        const { freelist_count: free } = each.prepare('PRAGMA freelist_count').get()
        const { page_size: size } = each.prepare('PRAGMA page_size').get()
        return { store: pages * size, free: free * size, log: bytes(`${path}-wal`) }
      })
      const mb = (of) => parts.reduce((sum, part) => sum + of(part), 0) / 2 ** 20
      return {
        'sqlite.storeMb': mb(({ store }) => store),
        'sqlite.freeMb': mb(({ free }) => free),
        'sqlite.logMb': mb(({ log }) => log),
      }
    },
    tables: async () => [],
    cpuMs: async () => 0,
    booked: async (ids) => {
      const text = `SELECT id, count(*) AS n FROM soak_booked WHERE id IN (${marks(ids)}) GROUP BY id`
      return countsOf((await all((each) => each.prepare(text).all(...ids))).flat())
    },
    bookedLike: async (start) =>
      countsOf(
        (
          await all((each) =>
            each.prepare('SELECT id, count(*) AS n FROM soak_booked WHERE id LIKE ? GROUP BY id').all(`${start}%`),
          )
        ).flat(),
      ),
    forget: async (ids) =>
      void (await all((each) => each.prepare(`DELETE FROM soak_booked WHERE id IN (${marks(ids)})`).run(...ids))),
    /** A transaction of another program keeps all processes waiting. */
    faults: [
      {
        name: 'lock',
        make: async () => {
          const each = db(Math.floor(Math.random() * count))
          await patiently(() => each.exec('BEGIN IMMEDIATE'))
          await pause(1000)
          each.exec('COMMIT')
        },
      },
    ],
    plantTransaction: async () => {
      open.push(new DatabaseSync(paths[0]))
      open.at(-1).exec('BEGIN')
      open.at(-1).prepare('SELECT count(*) FROM sqlite_master').get()
    },
    stop: async () => {
      for (const each of open) each?.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

async function postgresWorld(count) {
  const servers = []
  for (let n = 0; n < count; n++) servers.push(await benchPostgres())
  const { default: pg } = await import('pg')
  const pools = servers.map(({ url }) => new pg.Pool({ connectionString: url, max: 1 }))
  for (const pool of pools) pool.on('error', () => {})
  const all = async (text, values) =>
    await Promise.all(pools.map(async (pool) => (await patiently(() => pool.query(text, values))).rows))
  const withSchema = (url) => {
    const address = new URL(url)
    address.searchParams.set('schema', 'soak')
    return address.href
  }
  const ticks = { spent: 0, clocks: await Promise.all(servers.map(({ url }) => serverCpu(url))) }
  return {
    url: addressOf(servers.map(({ url }) => withSchema(url))),
    probeUrl: servers[0].url,
    prepare: async () => void (await all('CREATE TABLE IF NOT EXISTS soak_booked (id text)')),
    sizes: async () => {
      const tables = await tablesOf(all)
      const sum = (of) => tables.reduce((total, table) => total + of(table), 0)
      const figures = {
        'postgres.storeMb': sum(({ totalMb }) => totalMb),
        'postgres.deadRows': sum(({ dead }) => dead),
      }
      for (const { name, totalMb } of tables) figures[`table.${name}.tableMb`] = totalMb
      return figures
    },
    tables: async () => await tablesOf(all),
    cpuMs: async () => ticks.spent + ticks.clocks.reduce((sum, clock) => sum + (clock?.() ?? 0), 0),
    booked: async (ids) =>
      countsOf(
        (await all('SELECT id, count(*)::int AS n FROM soak_booked WHERE id = ANY($1) GROUP BY id', [ids])).flat(),
      ),
    bookedLike: async (start) =>
      countsOf(
        (
          await all('SELECT id, count(*)::int AS n FROM soak_booked WHERE id LIKE $1 GROUP BY id', [`${start}%`])
        ).flat(),
      ),
    forget: async (ids) => void (await all('DELETE FROM soak_booked WHERE id = ANY($1)', [ids])),
    faults: postgresFaults(pools, servers, again),
    plantTransaction: async () => {
      const client = new pg.Client({ connectionString: servers[0].url })
      client.on('error', () => {})
      await client.connect()
      await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
      await client.query('SELECT txid_current()')
    },
    stop: async () => {
      for (const pool of pools) await pool.end()
      for (const server of servers) await server.stop()
    },
  }

  /** Kills the server or shuts it down, and starts it again. */
  async function again(index, how) {
    ticks.spent += ticks.clocks[index]?.() ?? 0
    ticks.clocks[index] = null
    if (how === 'kill') await servers[index].kill()
    await servers[index].restart()
    ticks.clocks[index] = await serverCpu(servers[index].url)
  }
}

/** `again` stops and restarts the server with this index. */
function postgresFaults(pools, servers, again) {
  const some = () => Math.floor(Math.random() * servers.length)
  return [
    ...Array(8).fill({
      name: 'cut',
      make: async () => {
        await patiently(() =>
          pools[some()].query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                 WHERE pid <> pg_backend_pid() AND backend_type = 'client backend' AND random() < 0.5`),
        )
      },
    }),
    { name: 'restart', make: async () => await again(some(), 'restart') },
    ...Array(8).fill({ name: 'none', make: async () => undefined }),
    { name: 'crash', make: async () => await again(some(), 'kill') },
  ].filter(({ name }) => servers[0].isOurs || name === 'cut' || name === 'none')
}

/** Tables of the store with their sizes; for several servers, their sums. */
async function tablesOf(all) {
  const parts = await all(
    `SELECT relname AS name, pg_total_relation_size(relid)::float8 / 1048576 AS "totalMb",
            pg_relation_size(relid)::float8 / 1048576 AS "heapMb", pg_indexes_size(relid)::float8 / 1048576 AS "indexMb",
            n_live_tup::float8 AS live, n_dead_tup::float8 AS dead, n_tup_ins::float8 AS inserted, n_tup_upd::float8 AS updated,
            n_tup_hot_upd::float8 AS hot, n_tup_del::float8 AS deleted, (autovacuum_count + vacuum_count)::float8 AS vacuums
       FROM pg_stat_user_tables WHERE schemaname = 'soak'`,
  )
  const byName = new Map()
  for (const { name, ...numbers } of parts.flat()) {
    const sum = byName.get(name) ?? { name }
    for (const [key, value] of Object.entries(numbers)) sum[key] = (sum[key] ?? 0) + value
    byName.set(name, sum)
  }
  return [...byName.values()]
}

/** The audit's own connections are cut as well. */
async function patiently(work) {
  for (let attempt = 0; ; attempt++) {
    try {
      return await work()
    } catch (error) {
      if (attempt === 60) throw error
      await pause(500)
    }
  }
}

function addressOf(urls) {
  return urls.length === 1 ? urls[0] : `shards:${urls.join(',')}`
}

function countsOf(rows) {
  const counts = new Map()
  for (const { id, n } of rows) counts.set(id, (counts.get(id) ?? 0) + n)
  return counts
}
