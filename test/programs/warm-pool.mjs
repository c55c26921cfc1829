// Workflows that query a pool with an open connection: prints for each the line at which it was refused.
//   node warm-pool.mjs POSTGRES_URL

import pg from 'pg'
import { open } from '../../lib/index.js'
import { workflow } from '../../lib/layers/workflow/index.js'

const pool = new pg.Pool({ connectionString: process.argv[2], max: 1 })
const ask = () => pool.query('SELECT 1')
const codes = {
  query: async () => (await pool.query('SELECT 1')).rowCount,
  inFunction: async () => (await ask()).rowCount,
  callback: () => new Promise((resolve) => pool.query('SELECT 1', () => resolve(1))),
}

const rp = await open('memory:')
const told = {}
for (const [name, code] of Object.entries(codes)) {
  await pool.query('SELECT 1')
  const run = await rp.run(workflow(name, code))
  const { message, data } = await run.result().catch((error) => error)
  told[name] = { call: data?.call, at: data?.at, message }
}
console.log(JSON.stringify(told))
process.exit(0)
