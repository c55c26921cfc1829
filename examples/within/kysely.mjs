// Kysely: the trx that transaction().execute() passes to its function.

import { Kysely, PostgresDialect } from 'kysely'
import pg from 'pg'
import { within } from 'reprise/within'
import { checkout } from './shop.mjs'

export default async function order(rp, url, { id, cents }) {
  const db = new Kysely({ dialect: new PostgresDialect({ pool: new pg.Pool({ connectionString: url }) }) })
  try {
    return await db.transaction().execute(async (trx) => {
      await trx.insertInto('orders').values({ id, cents }).execute()
      return await within(rp, trx).run(checkout, { id, cents }, { id })
    })
  } finally {
    await db.destroy()
  }
}
