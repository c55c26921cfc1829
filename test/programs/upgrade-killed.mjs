// Opens a store of an older schema and dies by its own hand before the n-th SQL statement of the upgrade. Prints the number
// of statements if there are fewer.

import { createHash } from 'node:crypto'
import pg from 'pg'
import { openPostgres } from '../../dist/stores/postgres/index.js'
import { Connection } from '../../dist/stores/sqlite/file/connection.js'
import { openSqlite } from '../../dist/stores/sqlite/index.js'

const { file, url, schema, statements } = JSON.parse(process.argv[2])
const hash = (bytes) => new Uint8Array(createHash('sha256').update(bytes).digest())
let count = 0

/** Counts statements from the beginning of the transaction on. */
function dieAt(prototype, names, isBeginning) {
  for (const name of names) {
    const call = prototype[name]
    prototype[name] = function (...args) {
      if (count > 0 || isBeginning(args[0])) count += 1
      if (count === statements) process.kill(process.pid, 'SIGKILL')
      return call.apply(this, args)
    }
  }
}

dieAt(Connection.prototype, ['prepare', 'exec'], (sql) => sql === 'BEGIN IMMEDIATE')
dieAt(pg.Client.prototype, ['query'], (query) => `${query?.text ?? query}`.startsWith('BEGIN'))
const store = file
  ? await openSqlite(file, { namespace: 'default', hash })
  : await openPostgres(url, { namespace: 'default', schema, hash })
console.log(count)
await store.close()
