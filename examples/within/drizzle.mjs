// Drizzle, over pg or postgres.js: the tx that transaction() passes to its function.

import { drizzle } from 'drizzle-orm/node-postgres'
import { integer, pgTable, text } from 'drizzle-orm/pg-core'
import pg from 'pg'
import { within } from 'reprise/within'
import { checkout } from './shop.mjs'

const orders = pgTable('orders', { id: text('id').primaryKey(), cents: integer('cents').notNull() })

export default async function order(rp, url, { id, cents }) {
  const pool = new pg.Pool({ connectionString: url })
  const db = drizzle(pool)
  try {
    return await db.transaction(async (tx) => {
      await tx.insert(orders).values({ id, cents })
      return await within(rp, tx).run(checkout, { id, cents }, { id })
    })
  } finally {
    await pool.end()
  }
}
