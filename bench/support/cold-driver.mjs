// A new process with the bare driver of a store: `node cold-driver.mjs URL ID` prints the time after its first statement.

import pg from 'pg'
import { bareSqlite } from './stores.mjs'

const [, , url, id] = process.argv
if (url.startsWith('postgres')) {
  const client = new pg.Client(url.split('?')[0])
  await client.connect()
  await client.query('SELECT 1')
} else {
  const { insert } = await bareSqlite(`${url.slice('sqlite:'.length)}-${id}`)
  insert.run(1, 1, 'x')
}
console.log(Date.now())
process.exit(0)
