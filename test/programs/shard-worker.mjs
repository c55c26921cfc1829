// A worker on a set of shards, to be killed: runs have a child each, and those of `order` a queue with a limit, so that every one
// of them exchanges mail with timelines on other shards.

import { open } from '../../dist/index.js'
import { queue, workflow } from '../../dist/layers/workflow/index.js'

const { shards, queue: name = 'q' } = JSON.parse(process.argv[2] ?? '{}')

const belt = queue('belt', { concurrency: 5 })
const part = workflow('part', async (ctx, /** @type {number} */ n) => await ctx.step('make', () => n + 1))
/** @param {any} ctx @param {number} n */
async function double(ctx, n) {
  const doubled = await ctx.step('double', () => n * 2)
  await ctx.sleep(5)
  return await ctx.child(part, doubled)
}
const order = workflow('order', double, { queue: belt })
const rush = workflow('rush', double)
/** @param {any} ctx @param {number} n */
async function add(ctx, n) {
  return await ctx.step('add', () => n + 1)
}
const lone = workflow('lone', add)
const line = queue(name, { concurrency: 3 })
const queued = workflow('queued', add, { queue: line })

const rp = await open({ shards, lease: '3s', patience: '60s', worker: 'shard-worker' })
rp.work([order, rush, part, belt, lone, line, queued])
if (process.env.SHARD_TELL)
  rp.events.on('problem', ({ where, error }) => console.log('problem', where, String(error.stack)))
console.log('READY')
