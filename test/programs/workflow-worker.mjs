// A worker process for kill tests: executes the orders of a store, and writes each of its calls to a file, with its key and its
// purpose, so that the test can count them. Arguments: store URL, file, and the duration of a step in ms.

import { appendFileSync } from 'node:fs'
import { open } from '../../lib/index.js'
import { workflow } from '../../lib/layers/workflow/index.js'

const [, , url, file, stepMs] = process.argv
const call = async (key, intent) => {
  appendFileSync(file, `${key} ${intent}\n`)
  await new Promise((resolve) => setTimeout(resolve, Number(stepMs)))
  return key.length
}

export const order = workflow('order', async (ctx, n) => {
  let sum = 0
  for (let i = 0; i < n; i++) {
    sum += await ctx.step(`step ${i}`, ({ key }) => call(key, `${ctx.id} step ${i}`))
    if (i === 1) await ctx.sleep(50)
  }
  return sum
})

if (url) {
  const rp = await open(url, { lease: '2s' })
  rp.events.on('problem', ({ where, error }) => process.stderr.write(`${where}: ${error?.message ?? error}\n`))
  rp.work([order])
  process.send?.('ready')
  // The engine's own timers keep no process alive.
  setInterval(() => undefined, 1000)
}
