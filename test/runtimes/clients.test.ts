// Database clients whose packages are too large, or compile too long, for every run of the tests: Prisma with its generated
// client (300 MB), and better-sqlite3, which compiles where it finds no binary. `npm run test:runtimes` installs both; where npm
// cannot, the reason is printed. REPRISE_CLIENTS=1 npx vitest run test/runtimes/clients.test.ts runs this file alone.

import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import pg from 'pg'
import { describe, expect, inject, it } from 'vitest'
import { open } from '../../src/index.ts'
import { workflow, workflows } from '../../src/layers/workflow/index.ts'
import { within } from '../../src/within.ts'
import { until } from '../support/fixture.ts'
import { hostOf } from '../support/host.ts'
import { programOf, type Runtime } from '../support/runtimes.ts'
import { storeUrls } from '../support/store-urls.ts'
import { bySavepoint, type Client } from '../within/clients.mjs'
import { openSqliteFile } from '../within/database.ts'
import { type Ground, makeHistory, runBatch } from '../within/history.ts'

const isWanted = process.env.REPRISE_RUNTIMES === 'all' || process.env.REPRISE_CLIENTS === '1'
if (!isWanted) console.log('Prisma and better-sqlite3 are left out: npm run test:runtimes installs them')

const prismaPackages: Runtime = {
  name: 'Prisma',
  spec: 'prisma@7.10.0',
  beside: ['@prisma/client@7.10.0', '@prisma/adapter-pg@7.10.0'],
  programs: ['prisma/build/index.js'],
}
const betterSqlite: Runtime = {
  name: 'better-sqlite3',
  spec: 'better-sqlite3@12.11.1',
  programs: ['better-sqlite3/build/Release/better_sqlite3.node'],
}

const schema = `generator client {
  provider = "prisma-client-js"
}
datasource db {
  provider = "postgresql"
}
model PrismaOrder {
  id    String @id
  cents Int
  @@map("prisma_orders")
}
`

interface PrismaTransaction {
  $queryRawUnsafe(text: string): Promise<Record<string, unknown>[]>
  $executeRawUnsafe(text: string): Promise<number>
  readonly prismaOrder: { create(given: { data: object }): Promise<unknown> }
}
interface PrismaClient extends PrismaTransaction {
  $transaction<T>(work: (tx: PrismaTransaction) => Promise<T>, options?: object): Promise<T>
  $disconnect(): Promise<void>
}

/** The folder of `node_modules` with a generated client. Null: it cannot be had here. */
function generatedPrisma(): string | null {
  const program = isWanted ? programOf(prismaPackages) : null
  if (!program) return null
  const modules = join(program, '../../..')
  if (existsSync(join(modules, '.prisma/client/schema.prisma'))) return modules
  const folder = join(modules, '../prisma')
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'schema.prisma'), schema)
  // The schema engine, which only migrations need, is no npm package: without this variable it is downloaded.
  const env = { ...process.env, PRISMA_SCHEMA_ENGINE_BINARY: process.execPath, NODE_OPTIONS: '' }
  const options = { cwd: join(modules, '..'), env, encoding: 'utf8' } as const
  const { status, stderr } = spawnSync(process.execPath, [program, 'generate', '--schema', folder], options)
  if (status === 0) return modules
  console.warn(`Prisma is left out: ${stderr.trim()}`)
  return null
}

const prisma = generatedPrisma()

function connectPrisma(url: string): PrismaClient {
  const load = createRequire(join(prisma!, 'here.js'))
  const { PrismaClient: Generated } = load('@prisma/client') as { PrismaClient: new (given: object) => PrismaClient }
  const { PrismaPg } = load('@prisma/adapter-pg') as { PrismaPg: new (given: object) => unknown }
  return new Generated({ adapter: new PrismaPg({ connectionString: url, max: 6 }) })
}

const undone = new Error('undone by the test')
const order = workflow('order', async (_ctx, cents: number) => cents)

describe.runIf(prisma)('E3: the real client of Prisma', { timeout: 600_000 }, () => {
  it('commits an order and its run together, and after a rollback there is neither', async () => {
    const { url, remove } = storeUrls.postgres!()
    const rp = await open(url)
    const db = connectPrisma(inject('postgresUrl'))
    await db.$executeRawUnsafe('CREATE TABLE IF NOT EXISTS prisma_orders (id text PRIMARY KEY, cents integer NOT NULL)')
    const place = (id: string, end?: Error) =>
      db.$transaction(async (tx) => {
        await tx.prismaOrder.create({ data: { id, cents: 7 } })
        const started = await within(rp, tx).run(order, 7, { id })
        if (end) throw end
        return started
      })
    await expect(place('gone', undone)).rejects.toBe(undone)
    const started = await place('kept')
    expect(await (await started.started()).result()).toBe(7)
    expect(await db.$queryRawUnsafe('SELECT id FROM prisma_orders')).toEqual([{ id: 'kept' }])
    expect(await hostOf(rp).head('workflow/order/gone')).toBe(null)
    expect(() => within(rp, db)).toThrow(expect.objectContaining({ code: 'INVALID_ARGUMENT' }))
    await db.$executeRawUnsafe('DROP TABLE prisma_orders')
    await db.$disconnect()
    await rp.close()
    await remove()
  })

  it('passes random transactions with savepoints, rollbacks and duplicates', async () => {
    const { url, remove } = storeUrls.postgres!()
    await (await open(url)).close()
    const admin = new pg.Client(inject('postgresUrl'))
    await admin.connect()
    const table = `"${new URL(url).searchParams.get('schema')}_marks"`
    await admin.query(`CREATE TABLE ${table} (mark text)`)
    const db = connectPrisma(inject('postgresUrl'))
    const client: Client = {
      transaction: (work) =>
        db.$transaction((tx) => work(bySavepoint((text) => tx.$queryRawUnsafe(text), tx)), {
          maxWait: 60_000,
          timeout: 60_000,
        }),
      close: () => db.$disconnect(),
    }
    const ground: Ground = {
      ...{ url, table, clients: { Prisma: client }, ends: ['roll back'], isSequential: false },
      fault: async () => undefined,
      marks: async () => (await admin.query(`SELECT mark FROM ${table}`)).rows.map(({ mark }) => String(mark)),
    }
    const histories = Array.from({ length: 40 }, (_, seed) => makeHistory(seed, ground))
    expect((await runBatch(ground, histories, { atOnce: 6 })).faults).toEqual([])
    await client.close()
    await admin.query(`DROP TABLE ${table}`)
    await admin.end()
    await remove()
  })
})

const driver = isWanted ? programOf(betterSqlite) : null

it.runIf(driver)(
  'E3: the real better-sqlite3, in a process without the engine, starts a run with its order',
  async () => {
    const modules = join(driver!, '../../../..')
    const example = new URL('../../examples/within/better-sqlite3.mjs', import.meta.url).href
    const { url, remove } = storeUrls.sqlite!()
    const file = url.slice('sqlite:'.length)
    const rp = await open(url)
    const checkout = workflow('checkout', async (_ctx, { cents }: { cents: number }) => cents)
    rp.work([checkout])
    const db = openSqliteFile(file)
    db.exec('CREATE TABLE orders (id TEXT PRIMARY KEY, cents INTEGER NOT NULL)')
    const text = `import { createRequire } from 'node:module'
    import order from ${JSON.stringify(example)}
    const Database = createRequire(${JSON.stringify(join(modules, 'here.js'))})('better-sqlite3')
    order(Database, ${JSON.stringify(file)}, { id: 'one', cents: 7 })
    const refused = await Promise.resolve().then(() => order(Database, ${JSON.stringify(file)}, { id: 'one', cents: 8 }))
      .catch(({ code }) => code)
    console.log(refused)`
    const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', text], { encoding: 'utf8' })
    // The second transaction fails at its order, so that its request disappears.
    expect([stdout.trim(), stderr]).toEqual(['SQLITE_CONSTRAINT_PRIMARYKEY', ''])
    await until(async () => (await hostOf(rp).head('workflow/checkout/one')) !== null)
    expect(await workflows(rp).of(checkout).get('one').result()).toBe(7)
    const Database = createRequire(join(modules, 'here.js'))('better-sqlite3') as new (file: string) => object
    const memory = new Database(':memory:')
    expect(() => within(rp, memory)).toThrow(expect.objectContaining({ code: 'INVALID_ARGUMENT' }))
    db.close()
    await rp.close()
    await remove()
  },
)
