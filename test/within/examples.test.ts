// The examples of examples/within: an order and its run commit together, through each client.

import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { expect, inject, it } from 'vitest'
import { open, type Reprise } from '../../src/index.ts'
import type { WorkflowDefinition, WorkflowRun } from '../../src/layers/workflow/index.ts'
import type { Enlisted } from '../../src/within.ts'
import { storeUrls } from '../support/store-urls.ts'

type Order = (rp: Reprise, url: string, order: object) => Promise<Enlisted<WorkflowRun<string>>>
interface Shop {
  readonly checkout: WorkflowDefinition<unknown, string>
  createOrders(url: string): Promise<void>
}

const folder = fileURLToPath(new URL('../../examples/within', import.meta.url))
const files = readdirSync(folder).filter((file) => file !== 'shop.mjs')

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
