// A worker on a set of shards, to be killed: runs of `order` have a queue with a limit and a child each, so that every one of
// them exchanges mail with timelines on other shards.

import { open } from '../../dist/index.js'
import { queue, workflow } from '../../dist/layers/workflow/index.js'

const { shards } = JSON.parse(process.argv[2] ?? '{}')

const belt = queue('belt', { concurrency: 5 })
const part = workflow('part', async (ctx, /** @type {number} */ n) => await ctx.step('make', () => n + 1))
const order = workflow(
  'order',
  async (ctx, /** @type {number} */ n) => {
    const doubled = await ctx.step('double', () => n * 2)
    await ctx.sleep(5)
    return await ctx.child(part, doubled)
  },
  { queue: belt },
)

const rp = await open({ shards, lease: '3s', patience: '60s', worker: 'shard-worker' })
rp.work([order, part, belt])
console.log('READY')
