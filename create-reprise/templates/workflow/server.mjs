// POST /orders { "id": "a1", "cents": 1999 } starts an order, GET /orders/a1 shows it. Kill the process whenever you like.

import { serve } from '@hono/node-server'
import { Hono } from 'hono'
import { open, RepriseError } from 'reprise'
import { workflows } from 'reprise/workflow'
import { checkout } from './checkout.mjs'

const rp = await open() //                                    $REPRISE_URL, else sqlite:.reprise/reprise.db
rp.work([checkout]) //                                        also resumes the orders that a killed process left

const app = new Hono()
app.post('/orders', async (c) => {
  const { id, cents } = await c.req.json()
  if (typeof id !== 'string' || !Number.isInteger(cents)) return c.json({ error: 'id and cents are needed' }, 400)
  await rp.run(checkout, { cents }, { id }) //                the same id again finds the same order
  return c.json({ id }, 202)
})
app.get('/orders/:id', async (c) => {
  const order = workflows(rp).of(checkout).get(c.req.param('id'))
  return c.json(await order.status())
})
app.onError((error, c) => {
  if (error instanceof RepriseError && error.code === 'NOT_FOUND') return c.json({ error: 'unknown order' }, 404)
  console.error(error)
  return c.json({ error: 'internal error' }, 500)
})

const server = serve({ fetch: app.fetch, port: Number(process.env.PORT ?? 3000) }, ({ port }) =>
  console.log(`http://localhost:${port}  (kill -9 ${process.pid})`),
)
for (const signal of ['SIGINT', 'SIGTERM']) {
  process.once(signal, async () => {
    server.close()
    await rp.close()
  })
}
