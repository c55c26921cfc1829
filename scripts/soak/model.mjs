// The definitions that the soak runs. Orders, batches and ticks book rows in a table of the user's own, in the transaction of
// their record: the audit looks for a missing or an additional row. Every definition with a history limits it.

import { agent, tool } from '../../dist/layers/agent/index.js'
import { aggregate, projection } from '../../dist/layers/events/index.js'
import { job } from '../../dist/layers/job/index.js'
import { table } from '../../dist/layers/table/index.js'
import { queue, schedule, workflow } from '../../dist/layers/workflow/index.js'

const retain = { checkpoints: 2, history: 'needed', keys: { last: 500 } }
const book = (id) => (db) => db.run('INSERT INTO soak_booked (id) VALUES (?)', id)

/**
 * The expected duration of an order, fitted once on a quiet and on a busy machine: its sleep of 200 ms, 100 ms until it is
 * claimed, and the time of 25 appends in a row. So its duration can be judged on a machine that others use as well.
 */
export const orderFixedMs = 300
export const orderAppends = 25
const line = queue('line', { concurrency: 64, perKey: 8 })

/** Steps, a timer, for some a signal, SQL in a commit; behind a queue with limits. */
export const order = workflow(
  'order',
  async (ctx, { id, isAsked }) => {
    const price = await ctx.step('price', () => ({ cents: id.length * 100, note: 'x'.repeat(200) }))
    await ctx.sleep('200ms')
    if (isAsked) await ctx.signal('go', { timeout: '10m' })
    await ctx.step('reserve', () => ({ place: id }))
    await ctx.transaction('book', book(id))
    return price.cents
  },
  { queue: line },
)

/** Is rolled back and forked after it has ended. */
export const trial = workflow('trial', async (ctx, n) => {
  const first = await ctx.step('first', () => n, { compensate: () => undefined })
  return first + (await ctx.step('second', () => 1, { compensate: () => undefined }))
})

const tick = workflow('tick', async (ctx, id) => {
  await ctx.transaction('book', book(id))
})
export const ticks = schedule('ticks', { workflow: tick, every: '5s', input: (time) => `tick-${time.getTime()}` })

export const batchItems = 60
export const batchEveryMs = 60_000
export const batchIds = (n) => Array.from({ length: batchItems }, (_, index) => `batch-${n}-${index}`)

/** A job of its own for each minute; the workers share it, and take it over from each other. */
export const batch = (n) =>
  job(`batch-${n}`, {
    source: () => batchIds(n),
    shards: 2,
    concurrency: 4,
    each: (id, ctx) => ctx.commit(book(id)),
  })

export const account = aggregate('account', {
  initial: () => ({ balance: 0 }),
  evolve: { deposited: (state, event) => ({ balance: state.balance + event.amount }) },
  decide: { deposit: (_state, command) => ({ type: 'deposited', amount: command.amount, note: 'z'.repeat(100) }) },
  checkpoint: { every: 50 },
  retain,
})
export const accounts = 8

export const totals = projection('totals', {
  from: [account],
  initial: () => new Map(),
  on: { deposited: (sums, event, at) => void sums.set(at.id, (sums.get(at.id) ?? 0) + event.amount) },
  checkpoint: { every: 500 },
})

export const ledger = table('ledger', { checkpoint: { every: 500 }, retain })

/** Makes refunds and reports them. `refunds` is the bank: by key, so that a repeated call changes nothing. */
export const refunds = new Map()
export const support = agent('support', {
  tools: {
    refund: tool({
      kind: 'compensatable',
      inDoubt: 'retry',
      run: ({ cents }, { key }) => {
        refunds.set(key, cents)
        return { id: key }
      },
      compensate: (_args, result) => void refunds.delete(result.id),
    }),
  },
  model: ({ messages }) => {
    const last = messages.at(-1)
    if (last.role === 'tool') return { content: 'It is refunded.' }
    return { content: '', requests: [{ tool: 'refund', args: { cents: Number(last.content) } }] }
  },
})

/** How long the ids of read mail and the rows of ended workers are kept: the store is full after that. */
export const grace = '5m'

/** Ended timelines expire after half a minute, so that retention always has work. */
export const housekeeping = {
  every: '20s',
  drill: '5m',
  expire: {
    ended: { 'workflow/order/': '30s', 'workflow/trial/': '30s', 'workflow/tick/': '30s', 'job/': '3m' },
    archives: '30s',
  },
}
