// A worker on a set of shards, to be killed: runs have a child each, and those of `order` a queue with a limit, so that every
// one of them exchanges mail with timelines on other shards. Each step records its execution, with a token that is its outcome,
// and the outcomes of other steps that it received: a lost or repeated outcome is detected.

import { randomUUID } from 'node:crypto'
import { open } from '../../lib/index.js'
import { queue, workflow } from '../../lib/layers/workflow/index.js'

const { shards, queue: name = 'q' } = JSON.parse(process.argv[2] ?? '{}')

const belt = queue('belt', { concurrency: 5 })
/** @param {{ key: string }} step @param {string[]} saw */
async function act({ key }, ...saw) {
  const token = `${key}#${randomUUID()}`
  console.log(['STEP', token, ...saw].join(' '))
  await new Promise((resolve) => setTimeout(resolve, Math.random() * 20))
  return token
}
/** @param {any} ctx @param {{ n: number, token: string }} input */
async function make(ctx, { n, token }) {
  return { n: n + 1, token: await ctx.step('make', (/** @type {any} */ step) => act(step, token)) }
}
const part = workflow('part', make)
/** @param {any} ctx @param {number} n */
async function double(ctx, n) {
  const token = await ctx.step('double', (/** @type {any} */ step) => act(step))
  await ctx.sleep(5)
  const made = await ctx.child(part, { n: n * 2, token })
  await ctx.step('close', (/** @type {any} */ step) => act(step, token, made.token))
  return made.n
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
