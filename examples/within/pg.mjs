// pg: BEGIN and COMMIT on one client of the pool.

import pg from 'pg'
import { within } from 'reprise/within'
import { checkout } from './shop.mjs'

export default async function order(rp, url, { id, cents }) {
  const pool = new pg.Pool({ connectionString: url })
  const client = await pool.connect()
  try {
    await client.query('BEGIN')
    await client.query('INSERT INTO orders VALUES ($1, $2)', [id, cents])
    const started = await within(rp, client).run(checkout, { id, cents }, { id })
    await client.query('COMMIT')
    return started
  } catch (error) {
    await client.query('ROLLBACK')
    throw error
  } finally {
    client.release()
    await pool.end()
  }
}
