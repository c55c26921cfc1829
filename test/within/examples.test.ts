// The examples of examples/within: an order and its run commit together, through each client.

import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { DatabaseSync } from '@photostructure/sqlite'
import pg from 'pg'
import { expect, inject, it } from 'vitest'
import { open, type Reprise } from '../../src/index.ts'
import { type WorkflowDefinition, type WorkflowRun, workflows } from '../../src/layers/workflow/index.ts'
import type { Enlisted } from '../../src/within.ts'
import { until } from '../support/fixture.ts'
import { hostOf } from '../support/host.ts'
import { storeUrls } from '../support/store-urls.ts'
import { openSqliteFile } from './database.ts'

type Order = (rp: Reprise, url: string, order: object) => Promise<Enlisted<WorkflowRun<string>>>
interface Shop {
  readonly checkout: WorkflowDefinition<unknown, string>
  createOrders(url: string): Promise<void>
}

const folder = fileURLToPath(new URL('../../examples/within', import.meta.url))
const onSqlite = ['node-sqlite.mjs', 'better-sqlite3.mjs']
const files = readdirSync(folder).filter((file) => file !== 'shop.mjs' && !onSqlite.includes(file))

it.each(files)('E3: %s starts a run with its order', async (file) => {
  const { checkout, createOrders } = (await import(join(folder, 'shop.mjs'))) as Shop
  const { default: order } = (await import(join(folder, file))) as { readonly default: Order }
  const { url, remove } = storeUrls.postgres!()
  const rp = await open(url)
  const plain = inject('postgresUrl')
  await createOrders(plain)
  const started = await order(rp, plain, { id: `order by ${file}`, cents: 7 })
  rp.work([checkout])
  expect(await (await started.started()).result()).toBe(`order by ${file}`)
  const client = new pg.Client(plain)
  await client.connect()
  const { rows } = await client.query('DELETE FROM orders WHERE id = $1 RETURNING cents', [`order by ${file}`])
  expect(rows).toEqual([{ cents: 7 }])
  await client.end()
  await rp.close()
  await remove()
})

it('E3: node-sqlite.mjs starts a run with its order, and better-sqlite3.mjs does without an engine', async () => {
  const { checkout } = (await import(join(folder, 'shop.mjs'))) as Shop
  const inside = (await import(join(folder, 'node-sqlite.mjs'))) as { readonly default: Order }
  const alone = (await import(join(folder, 'better-sqlite3.mjs'))) as {
    default(database: typeof DatabaseSync, file: string, order: object): void
  }
  const { url, remove } = storeUrls.sqlite!()
  const file = url.slice('sqlite:'.length)
  const rp = await open(url)
  const db = openSqliteFile(file)
  db.exec('CREATE TABLE orders (id TEXT PRIMARY KEY, cents INTEGER NOT NULL)')
  const started = await inside.default(rp, file, { id: 'inside', cents: 7 })
  // The API that better-sqlite3 and node:sqlite share.
  alone.default(DatabaseSync, file, { id: 'alone', cents: 8 })
  rp.work([checkout])
  expect(await (await started.started()).result()).toBe('inside')
  await until(async () => (await hostOf(rp).head('workflow/checkout/alone')) !== null)
  expect(await workflows(rp).of(checkout).get('alone').result()).toBe('alone')
  expect(db.prepare('SELECT id, cents FROM orders ORDER BY id').all()).toEqual([
    { id: 'alone', cents: 8 },
    { id: 'inside', cents: 7 },
  ])
  db.close()
  await rp.close()
  await remove()
})
