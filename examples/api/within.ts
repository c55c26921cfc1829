// Examples of `reprise/within`.

import assert from 'node:assert/strict'
import { join } from 'node:path'
import { DatabaseSync } from '@photostructure/sqlite'
import { timeline } from 'reprise'
import { aggregate, commandTo } from 'reprise/events'
import { consumer, itemQueue } from 'reprise/job'
import { within } from 'reprise/within'
import { signal, workflow } from 'reprise/workflow'
import { example } from './example.ts'

const paid = signal<{ readonly amount: number }>('paid')
const checkout = workflow('checkout', async (ctx, order: { readonly id: string }) => {
  const { amount } = await ctx.signal(paid)
  return `${order.id}: ${amount}`
})
const account = aggregate('account', {
  initial: () => ({ points: 0 }),
  evolve: { earned: (s, e: { readonly points: number }) => ({ points: s.points + e.points }) },
  decide: { earn: (_, c: { readonly points: number }) => ({ type: 'earned', points: c.points }) },
})
const log = timeline('log', {
  initial: () => 0,
  apply: (n, _: { readonly type: 'ordered'; readonly id: string }) => n + 1,
})
const mails = itemQueue<{ readonly to: string }>('mails')
const mailer = consumer('mailer', { from: [mails], each: async ({ item }) => console.assert(item.to === 'ann') })

export default [
  example(
    [
      'within',
      'Within.run',
      'Enlisted.started',
      'Within.signal',
      'Within.cancel',
      'Within.send',
      'Within.append',
      'Within.items',
    ],
    async (rp, folder) => {
      // The file of the store, opened by the application.
      const db = new DatabaseSync(join(folder, 'store.db'))
      db.exec('CREATE TABLE orders (id TEXT)')

      db.exec('BEGIN IMMEDIATE')
      db.prepare('INSERT INTO orders VALUES (?)').run('o1')
      const started = await within(rp, db).run(checkout, { id: 'o1' }, { id: 'o1' })
      await within(rp, db).signal(checkout, 'o1', paid, { amount: 7 })
      await within(rp, db).cancel(checkout, 'o0', { reason: 'replaced by o1' })
      await within(rp, db).send('inbox/ann', 'ordered', { id: 'o1' }, { key: 'o1' })
      await within(rp, db).send(commandTo(account, 'ann', 'earn', { points: 7 }), { key: 'o1' })
      await within(rp, db).append(log, 'orders', { type: 'ordered', id: 'o1' }, { key: 'o1' })
      await within(rp, db).items(mails, [{ to: 'ann' }], { key: 'o1' })
      db.exec('COMMIT')

      rp.work([checkout, account, log, mailer])
      const run = await started.started()
      assert.equal(await run.result(), 'o1: 7')
      db.close()
    },
    'sqlite',
  ),
]
