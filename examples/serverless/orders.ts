// Orders that serverless functions execute: each invocation does due work and leaves the rest to the next one. The handlers
// beside this file wrap it for each platform.

import { appendFileSync } from 'node:fs'
import { open } from 'reprise'
import { type WorkflowContext, workflow } from 'reprise/workflow'

export const order = workflow('order', async (ctx: WorkflowContext, item: string) => {
  const payment = await ctx.step('charge', ({ key }) => callOutside(key, `charge ${item}`))
  await ctx.sleep(100)
  const parcel = await ctx.step('ship', ({ key }) => callOutside(key, `ship ${item}`))
  return [payment, parcel]
})

export const options = {
  open: () => open(process.env.DATABASE_URL!, { lease: '3s' }),
  work: [order],
  idle: '300ms',
} as const

/**
 * Stands for an outside service that honours keys: it executes the same intent once per key, however often it is called.
 */
async function callOutside(key: string, intent: string): Promise<string> {
  appendFileSync(process.env.LEDGER ?? 'orders.log', `${key} ${intent}\n`)
  return intent
}
