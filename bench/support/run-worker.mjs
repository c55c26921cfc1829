// A process that works on runs of three steps: those that it starts itself, or those that other processes started. Its parent
// sends it requests; it reports the number of finished runs and its processor time.

import { open } from '../../dist/index.js'
import { workflow } from '../../dist/layers/workflow/index.js'

const [, , url, name] = process.argv
let finished = 0
let told = 0

const threeSteps = workflow(name, async (ctx, n) => {
  const a = await ctx.step('a', () => n)
  const b = await ctx.step('b', () => a + 1)
  const c = await ctx.step('c', () => b + 1)
  finished += 1
  return c
})

const rp = await open(url)
const ticker = setInterval(() => {
  if (told === finished) return
  told = finished
  process.send({ finished })
}, 20)

async function inGroups(count, call) {
  for (let from = 0; from < count; from += 100)
    await Promise.all(Array.from({ length: Math.min(100, count - from) }, (_, index) => call(from + index)))
}

const orders = {
  /** Starts runs for other processes, and ends. */
  enter: ({ count }) => inGroups(count, (n) => rp.run(threeSteps, n, { here: false })),
  /** Claims all due runs from now on. */
  work: async () => void rp.work([threeSteps]),
  /** Starts and executes its own runs. */
  own: ({ count }) => inGroups(count, async (n) => await (await rp.run(threeSteps, n)).result()),
  cpu: async () => {
    const { user, system } = process.cpuUsage()
    return (user + system) / 1000
  },
  end: async () => {
    clearInterval(ticker)
    await rp.close()
    process.disconnect()
  },
}

process.on('message', async ({ order, ...rest }) => {
  const answer = await orders[order](rest)
  if (order !== 'end') process.send({ done: order, answer })
})
process.send({ done: 'open' })
