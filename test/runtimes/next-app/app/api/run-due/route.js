// A route of Next.js that executes due work: a workflow of 20 steps, each with a line in the file LEDGER.

import { appendFileSync } from 'node:fs'
import { open } from 'reprise'
import { routeHandler } from 'reprise/serverless'
import { workflow } from 'reprise/workflow'

const order = workflow('order', async (ctx) => {
  for (let n = 0; n < 20; n++) {
    await ctx.step(`s${n}`, async ({ key }) => {
      appendFileSync(process.env.LEDGER, `s${n} ${key}\n`)
      await new Promise((resolve) => setTimeout(resolve, 50))
    })
  }
})

export const dynamic = 'force-dynamic'
export const GET = routeHandler({
  open: () => open(process.env.STORE, { lease: '2s' }),
  work: [order],
  budget: '60s',
  secret: process.env.CRON_SECRET,
})
