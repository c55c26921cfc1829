// Knex: the trx that transaction() passes to its function.

import knex from 'knex'
import { within } from 'reprise/within'
import { checkout } from './shop.mjs'

export default async function order(rp, url, { id, cents }) {
  const db = knex({ client: 'pg', connection: url })
  try {
    return await db.transaction(async (trx) => {
      await trx('orders').insert({ id, cents })
      return await within(rp, trx).run(checkout, { id, cents }, { id })
    })
  } finally {
    await db.destroy()
  }
}
