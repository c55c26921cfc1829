// A worker of test/within/kill.test.ts: carries out requests, and handles items, until it is killed.
// Arguments: the store's URL, and the table for handled items.

import { open } from '../../dist/index.js'
import { consumer, itemQueue } from '../../dist/layers/job/index.js'
import { workflow } from '../../dist/layers/workflow/index.js'

const [, , url, table] = process.argv
const rp = await open(url, { lease: '1s' })
const mailer = consumer('mailer', {
  from: [itemQueue('mails')],
  concurrency: 16,
  each: ({ item }, ctx) => ctx.commit((sql) => sql.run(`INSERT INTO ${table} VALUES (?)`, item)),
})
rp.work([workflow('order', async (_ctx, id) => id), mailer])
process.send?.('working')
