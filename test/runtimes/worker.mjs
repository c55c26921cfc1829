// A module for workerd: /checks runs the checks of the models, and every other request does the due work of one workflow whose
// effects go to an outside ledger. It is bundled, as a deployment is.

import { open } from 'reprise'
import { cloudflareHandler } from 'reprise/serverless'
import { workflow } from 'reprise/workflow'
import { models, runChecks } from './models.mjs'

const orderFor = (ledger) =>
  workflow('order', async (ctx, id) => {
    for (const step of ['charge', 'pack', 'ship']) {
      await ctx.step(step, async ({ key }) => {
        await fetch(`${ledger}/${id}/${step}`, { method: 'POST', headers: { 'idempotency-key': key } })
      })
      await ctx.sleep('20ms')
    }
    return id
  })

const handler = cloudflareHandler((env) => ({
  open: () => open(env.STORE),
  work: [orderFor(env.LEDGER)],
  secret: null,
  budget: '20s',
  idle: '1s',
}))

export default {
  ...handler,
  async fetch(request, env) {
    const { pathname, searchParams } = new URL(request.url)
    if (pathname === '/checks') {
      const checked = []
      await runChecks(env.STORE, models, (each) => checked.push(each))
      return Response.json(checked)
    }
    if (pathname === '/open') {
      const refused = await open(searchParams.get('url'), JSON.parse(searchParams.get('options') ?? '{}')).then(
        (rp) => rp.close().then(() => null),
        ({ code, message }) => ({ code, message }),
      )
      return Response.json(refused)
    }
    if (pathname === '/start') {
      const rp = await open(env.STORE)
      const run = await rp.run(orderFor(env.LEDGER), searchParams.get('id'), {
        id: searchParams.get('id'),
        here: false,
      })
      await rp.close()
      return Response.json(run.id)
    }
    return await handler.fetch(request, env)
  },
}
