// Examples of `reprise/serverless`.

import assert from 'node:assert/strict'
import { cloudflareHandler, lambdaHandler, pushWakes, routeHandler, signWake, verifyWake } from 'reprise/serverless'
import { workflow } from 'reprise/workflow'
import { example } from './example.ts'

const greet = workflow('greet', async (ctx, name: string) => await ctx.step('greet', () => `Hello ${name}`))
const secret = 'at least sixteen characters'

export default [
  example(['lambdaHandler'], async (rp) => {
    const handler = lambdaHandler({ open: async () => rp, work: [greet], idle: 50 })
    const run = await rp.run(greet, 'ann', { here: false })
    const { done } = await handler({}, { getRemainingTimeInMillis: () => 60_000 })
    assert.deepEqual([done, await run.result()], [1, 'Hello ann'])
  }),
  example(['routeHandler'], async (rp) => {
    const POST = routeHandler({ open: async () => rp, work: [greet], idle: 50, secret })
    const refused = await POST(new Request('https://example.com/api/work', { method: 'POST' }))
    assert.equal(refused.status, 401)
  }),
  example(['cloudflareHandler'], async (rp) => {
    const worker = cloudflareHandler(() => ({ open: async () => rp, work: [greet], idle: 50, secret: null }))
    const response = await worker.fetch(new Request('https://example.com/'), {})
    assert.deepEqual(await response.json(), { done: 0, handedOver: [], nextDueAt: null })
  }),
  example(
    ['pushWakes', 'Wakes.push', 'Wakes.settled', 'Wakes.close'],
    async (rp) => {
      const wakes = pushWakes(rp, { url: 'https://example.com/api/work', secret })
      await rp.run(greet, 'ann', { here: false })
      // After a transaction that started a run with within(): it is not a commit of this engine.
      wakes.push()
      await wakes.settled()
      await wakes.close()
    },
    'compiled',
  ),
  example(['signWake', 'verifyWake'], async () => {
    const body = '{}'
    const signature = await signWake(secret, body)
    await verifyWake(secret, signature, body)
    await assert.rejects(verifyWake(secret, signature, 'another body'), { code: 'UNAUTHENTICATED' })
  }),
]
