// A pipeline from a file that grows to a table of the store: revenue per customer and minute, each sum exactly once. The second
// run continues where the first one stopped. `runExample` writes a small file and reads it.

import { appendFileSync, existsSync, readFileSync } from 'node:fs'
import { open } from 'reprise'
import { jsonLineSource, pipeline, rowSink, sum, tumbling } from 'reprise/pipeline'

interface Order {
  readonly customer: string
  readonly cents: number
  readonly at: number
}

export const revenueOf = (file: string) =>
  pipeline('revenue', (p) => {
    p.from('orders', jsonLineSource<Order>(file, { follow: '10ms' }), { time: (order) => order.at, outOfOrder: '5s' })
      .filter((order) => order.cents > 0)
      .keyBy((order) => order.customer)
      .window('per-minute', tumbling('1m'))
      .aggregate(sum((order) => order.cents))
      .to(
        'totals',
        rowSink({
          table: 'revenue',
          row: ({ key, start, value }) => ({ customer: key, minute: start, cents: value }),
          setup: 'CREATE TABLE IF NOT EXISTS revenue (customer TEXT, minute BIGINT, cents BIGINT)',
        }),
      )
  })

/** Adds orders to the file, lets the pipeline read them, and stops it with a savepoint, or at its end with `drain`. */
export async function runExample(url: string, file: string, orders: readonly Order[], drain = false) {
  appendFileSync(file, orders.map((order) => `${JSON.stringify(order)}\n`).join(''))
  const rp = await open(url)
  try {
    const run = await rp.run(revenueOf(file), { checkpoint: { every: '50ms' } }).started()
    // The orders above that this process has read since it was started.
    while (run.status().records < orders.length) await new Promise((resolve) => setTimeout(resolve, 5))
    const { status, records } = await run.stop({ drain })
    const totals = await rp.sql<{ customer: string; minute: number; cents: number }>(
      'SELECT customer, minute, cents FROM revenue ORDER BY minute, customer',
    )
    return { status, records, totals }
  } finally {
    await rp.close()
  }
}

if (process.argv[1]?.endsWith('revenue.ts')) {
  const file = 'orders.jsonl'
  const before = existsSync(file) ? readFileSync(file, 'utf8').split('\n').length - 1 : 0
  // One order per minute: a sum is emitted when its minute is over.
  const orders = ['ann', 'bob', 'ann'].map((customer, i) => ({ customer, cents: 100, at: 60_000 * (before + i) }))
  console.log(await runExample('sqlite:revenue.db', file, orders))
}
