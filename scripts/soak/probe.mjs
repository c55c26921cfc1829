// The current cost of the machine and the bare store: a process that commits a row with the bare driver a few times a second.
// The soak's own times are judged as ratios to it: a busy machine slows both. node probe.mjs sqlite:PATH|postgres://…

import { setTimeout as pause } from 'node:timers/promises'
import { bareSqlite } from '../../bench/support/stores.mjs'

const url = process.argv[2]
const commit = url.startsWith('sqlite:') ? await sqliteCommit(url.slice('sqlite:'.length)) : await postgresCommit(url)
const row = 'x'.repeat(300)
process.on('disconnect', () => process.exit(0))
for (;;) {
  await pause(250)
  try {
    const bareMs = await time(() => commit(row))
    process.send({ bareMs })
  } catch (error) {
    // A server can be unreachable for a moment; a file cannot.
    if (url.startsWith('sqlite:')) throw error
  }
}

async function time(work) {
  const began = performance.now()
  await work()
  return performance.now() - began
}

/** A file of its own beside the store's: the same disk and settings, without the store's lock. */
async function sqliteCommit(path) {
  const bare = await bareSqlite(path)
  let n = 0
  // Through the database: a statement alone does not keep it alive.
  return (data) => {
    n += 1
    return bare.db.isOpen && bare.insert.run(n % 100, n, data)
  }
}

async function postgresCommit(connectionString) {
  const { default: pg } = await import('pg')
  const pool = new pg.Pool({ connectionString, max: 1 })
  pool.on('error', () => {})
  await pool.query('CREATE TABLE soak_probe (position bigserial PRIMARY KEY, data text)')
  return async (data) =>
    await pool.query({ name: 'probe', text: 'INSERT INTO soak_probe (data) VALUES ($1)', values: [data] })
}
