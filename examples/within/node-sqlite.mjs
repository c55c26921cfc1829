// node:sqlite: a connection to the file of the store, with BEGIN and COMMIT. Before Node 22.13: @photostructure/sqlite.

import { DatabaseSync } from '@photostructure/sqlite'
import { within } from 'reprise/within'
import { checkout } from './shop.mjs'

/** The store is `sqlite:FILE`. */
export default async function order(rp, file, { id, cents }) {
  const db = new DatabaseSync(file)
  db.exec('PRAGMA busy_timeout = 5000')
  db.exec('BEGIN IMMEDIATE')
  try {
    db.prepare('INSERT INTO orders VALUES (?, ?)').run(id, cents)
    const started = await within(rp, db).run(checkout, { id, cents }, { id })
    db.exec('COMMIT')
    return started
  } catch (error) {
    db.exec('ROLLBACK')
    throw error
  } finally {
    db.close()
  }
}
