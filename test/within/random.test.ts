// Random transactions over the clients of applications, against a model (history.ts): nested and undone, killed at the client
// and at the server, cut in COMMIT, with concurrent duplicates. `npm run prove -- --only within` for 10,000 of them;
// REPRISE_WITHIN_HISTORIES, REPRISE_WITHIN_FROM and REPRISE_SEED choose their number, the first one, and others.

import pg from 'pg'
import { afterAll, describe, expect, inject, it } from 'vitest'
import { open } from '../../src/index.ts'
import { storeUrls } from '../support/store-urls.ts'
import { type Client, postgresClients, sqliteClients } from './clients.mjs'
import { type CommitProxy, type Cut, commitProxy } from './commit-proxy.ts'
import { openSqliteFile } from './database.ts'
import { type Ground, type History, makeHistory, type Planted, runBatch } from './history.ts'
import { drainPlants } from './plants.ts'

const histories = Number(process.env.REPRISE_WITHIN_HISTORIES ?? 50)
const firstSeed = Number(process.env.REPRISE_SEED ?? 1) * 1_000_000 + Number(process.env.REPRISE_WITHIN_FROM ?? 0)
/** A new store after this many. */
const batchSize = 250

const closing: (() => Promise<unknown>)[] = []
afterAll(async () => {
  for (const close of closing.reverse()) await close()
})

let shared: Promise<{ readonly proxy: CommitProxy; readonly clients: Readonly<Record<string, Client>> }> | null = null

/** The pools of all clients, through the proxy: connecting them anew for each store would take most of the time. */
function connectPostgres() {
  shared ??= (async () => {
    const direct = new URL(inject('postgresUrl'))
    const proxy = await commitProxy({ host: direct.hostname, port: Number(direct.port) })
    const through = new URL(direct)
    through.hostname = '127.0.0.1'
    through.port = String(proxy.port)
    const connect = Object.entries(postgresClients).map(([name, make]) => [name, make(through.href)] as const)
    closing.push(() => proxy.close())
    for (const [, client] of connect) closing.push(() => client.close())
    return { proxy, clients: Object.fromEntries(connect) }
  })()
  return shared
}

async function postgresGround(url: string): Promise<Ground & { close(): Promise<void> }> {
  const { proxy, clients } = await connectPostgres()
  const admin = new pg.Client(inject('postgresUrl'))
  await admin.connect()
  const table = `"${new URL(url).searchParams.get('schema')}_marks"`
  await admin.query(`CREATE TABLE ${table} (mark text)`)
  return {
    ...{ url, clients, table, isSequential: false },
    ends: ['roll back', 'terminate', 'now', 'unsent', 'torn', 'unanswered'],
    async fault(tx, end) {
      const [line] = await tx.run('SELECT pg_backend_pid() AS pid, inet_client_port() AS port')
      if (end === 'terminate') await admin.query('SELECT pg_terminate_backend($1)', [line!.pid])
      else proxy.cut(Number(line!.port), end as Cut)
    },
    marks: async () => (await admin.query(`SELECT mark FROM ${table}`)).rows.map(({ mark }) => String(mark)),
    async close() {
      await admin.query(`DROP TABLE ${table}`)
      await admin.end()
    },
  }
}

async function sqliteGround(url: string): Promise<Ground & { close(): Promise<void> }> {
  const file = url.slice('sqlite:'.length)
  const db = openSqliteFile(file)
  db.exec('CREATE TABLE marks (mark TEXT)')
  const clients = Object.fromEntries(Object.entries(sqliteClients).map(([name, make]) => [name, make(file)]))
  return {
    ...{ url, clients, table: 'marks', isSequential: true },
    // A connection of SQLite ends with its process: kill.test.ts.
    ends: ['roll back'],
    fault: async () => undefined,
    marks: async () => (db.prepare('SELECT mark FROM marks').all() as { mark: string }[]).map(({ mark }) => mark),
    async close() {
      db.close()
      for (const client of Object.values(clients)) await client.close()
    },
  }
}

async function run(kind: string, seeds: readonly number[], planted: Planted | null = null) {
  const { url, remove } = storeUrls[kind]!()
  await (await open(url)).close()
  const ground = await (kind === 'postgres' ? postgresGround : sqliteGround)(url)
  try {
    const made: History[] = seeds.map((seed) => makeHistory(seed, ground))
    return await runBatch(ground, made, { planted, atOnce: ground.isSequential ? 1 : 6 })
  } finally {
    await ground.close()
    await remove()
  }
}

const seedsFrom = (first: number, count: number) => Array.from({ length: count }, (_, i) => first + i)

describe.each(Object.keys(storeUrls))('random transactions of applications (%s)', (kind) => {
  it('E3: what committed happens once and in order, and nothing else does', { timeout: 7_200_000 }, async () => {
    const inDoubt = { committed: 0, lost: 0 }
    for (let done = 0; done < histories; done += batchSize) {
      const found = await run(kind, seedsFrom(firstSeed + done, Math.min(batchSize, histories - done)))
      expect(found.faults).toEqual([])
      inDoubt.committed += found.inDoubt.committed
      inDoubt.lost += found.inDoubt.lost
    }
    if (kind === 'postgres') expect(Math.min(inDoubt.committed, inDoubt.lost)).toBeGreaterThan(0)
  })

  const bugs: Planted[] = ['key ignored', 'savepoint ignored', 'reversed']
  // A second connection in the same thread would wait for the first one's lock, and SQLite's COMMIT has no connection to cut.
  const onPostgres: Planted[] = ['other connection', 'after the commit', 'carried out in another order']
  const more = kind === 'postgres' ? onPostgres : drainPlants
  it.each([...bugs, ...more])('a planted bug is found: %s', async (planted) => {
    expect((await run(kind, seedsFrom(firstSeed, 40), planted)).faults).not.toEqual([])
  })
})
