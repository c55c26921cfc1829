// An order: each step is done once, also if the process is killed in the middle.

import { appendFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { GiveUp, workflow } from 'reprise/workflow'

// Stands for your bank and your warehouse: bank.txt shows what they were told.
const bank = {
  async charge(cents, key) {
    appendFileSync('bank.txt', `charged ${cents} with ${key}\n`)
    return { payment: key }
  },
  refund: async (payment) => appendFileSync('bank.txt', `refunded ${payment}\n`),
}

export const checkout = workflow('checkout', async (ctx, order) => {
  const { payment } = await ctx.step('charge', ({ key }) => bank.charge(order.cents, key), {
    retry: { attempts: 3 },
    compensate: (charged) => bank.refund(charged.payment), // called if a later step fails
  })
  await ctx.sleep('2s') //                                    survives a restart; a week costs nothing either
  await ctx.step('ship', async () => {
    if (order.cents > 100_000) throw new GiveUp('nothing left in stock')
    await sleep(200)
  })
  return { payment, shipped: true }
})
