// What the soak runs: an order behind a queue with a limit. It sleeps, some wait for a word, and it books one row in a table
// of the user's own in the same transaction: a row too few or too many is what the audit looks for. Beside it, a table.

import { table } from '../../dist/layers/table/index.js'
import { queue, workflow } from '../../dist/layers/workflow/index.js'

const line = queue('line', { concurrency: 64 })

export const order = workflow(
  'order',
  async (ctx, { id, isAsked }) => {
    const price = await ctx.step('price', () => ({ cents: id.length * 100, note: 'x'.repeat(200) }))
    await ctx.sleep('200ms')
    if (isAsked) await ctx.signal('go', { timeout: '10m' })
    await ctx.step('reserve', () => ({ place: id }))
    await ctx.transaction('book', (db) => db.run('INSERT INTO soak_booked (id) VALUES (?)', id))
    return price.cents
  },
  { queue: line },
)

export const ledger = table('ledger', {
  checkpoint: { every: 500 },
  retain: { checkpoints: 3, history: 'needed', keys: { last: 1000 } },
})

export const prepare = workflow('prepare', async (ctx) => {
  await ctx.transaction('table', (db) => db.run('CREATE TABLE IF NOT EXISTS soak_booked (id TEXT)'))
})
