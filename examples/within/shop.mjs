// The parts that the examples of this folder share: a workflow, and an application's table in the database of the store.

import pg from 'pg'
import { workflow } from 'reprise/workflow'

export const checkout = workflow('checkout', async (ctx, order) => {
  await ctx.step('charge', () => `charged ${order.cents}`)
  return order.id
})

/** Creates the table `orders` of the application. */
export async function createOrders(url) {
  const client = new pg.Client(url)
  await client.connect()
  await client.query('CREATE TABLE IF NOT EXISTS orders (id text PRIMARY KEY, cents integer NOT NULL)')
  await client.end()
}
