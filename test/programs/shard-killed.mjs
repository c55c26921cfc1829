// Adds a shard to a set of SQLite files and kills itself before one of its transactions is durable, by number. A number beyond
// the last one kills nothing, and the count is printed.

import { open } from '../../dist/index.js'
import { Connection } from '../../dist/stores/sqlite/file/connection.js'

const { shards, url, at } = JSON.parse(process.argv[2] ?? '{}')
let commits = 0
let isCounting = false

/** @param {string} sql */
function beforeDurable(sql) {
  if (!isCounting || !/^\s*COMMIT\b/i.test(sql)) return
  commits += 1
  if (commits === at) process.kill(process.pid, 'SIGKILL')
}

for (const method of /** @type {const} */ (['exec', 'run'])) {
  const call = Connection.prototype[method]
  Connection.prototype[method] = /** @type {any} */ (
    /** @this {Connection} @param {[string, ...any]} given */
    function (...given) {
      beforeDurable(given[0])
      return /** @type {any} */ (call).apply(this, given)
    }
  )
}

const rp = await open({ shards, worker: 'shard-killed', housekeeping: false })
isCounting = true
const { moved } = await rp.addShard(url, { wait: '1s' })
isCounting = false
console.log(JSON.stringify({ commits, moved }))
await rp.close()
