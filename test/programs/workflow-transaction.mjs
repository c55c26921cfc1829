// A process that dies around the commit of a transaction, or continues after one that did. Arguments: store URL, namespace, and
// where to die: "in" the user's SQL, once it was "committed", once the code was "told", or "never".

import { openStore } from '../../dist/engine/api/open.js'
import { workflow } from '../../dist/layers/workflow/index.js'
import { createEngine } from '../../dist/store.js'

const [, , url, namespace, where] = process.argv
const die = () => process.kill(process.pid, 'SIGKILL')

const pay = workflow('pay', async (ctx, table) => {
  await ctx.step('before', () => 1)
  const paid = await ctx.transaction('pay', async (db, { key }) => {
    await db.run(`INSERT INTO ${table} (payment, process) VALUES (?, ?)`, key, process.pid)
    if (where === 'in') die()
    return (await db.get(`SELECT COUNT(*) AS n, MAX(process) AS process FROM ${table}`)).process
  })
  if (where === 'told') die()
  await ctx.step('after', () => 2)
  return Number(paid)
})

const store = await openStore(url, { namespace })
const commit = store.commit.bind(store)
store.commit = async (commits) => {
  const outcomes = await commit(commits)
  // The first commit that takes SQL along makes the table of results; the payment is the second.
  rides += commits.filter((one) => one.userSql).length
  if (where === 'committed' && rides === 2) die()
  return outcomes
}
let rides = 0

const rp = createEngine({ store }, { lease: '10m' })
rp.work([pay])
process.send?.({ pid: process.pid })
process.on('message', async (message) => {
  if (message === 'end') {
    await rp.close()
    process.exit(0)
  }
})
setInterval(() => undefined, 1000)
