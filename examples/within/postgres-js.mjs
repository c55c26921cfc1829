// postgres.js: the sql that begin() passes to its function.

import postgres from 'postgres'
import { within } from 'reprise/within'
import { checkout } from './shop.mjs'

export default async function order(rp, url, { id, cents }) {
  const sql = postgres(url)
  try {
    return await sql.begin(async (tx) => {
      await tx`INSERT INTO orders ${tx({ id, cents })}`
      return await within(rp, tx).run(checkout, { id, cents }, { id })
    })
  } finally {
    await sql.end()
  }
}
