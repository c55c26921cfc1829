// A run that reads a shared result, in a process of its own. usage: memo-workflow.mjs STORE RUN LOG WHERE WHERE: die "in" the
// computation, once it was "computed" and nothing is recorded yet, once it was "recorded", or "never".

import { appendFileSync } from 'node:fs'
import { recalls } from '../../dist/engine/model/memo-protocol.js'
import { open } from '../../dist/index.js'
import { memo } from '../../dist/layers/memo/index.js'
import { workflow } from '../../dist/layers/workflow/index.js'

const [store, id, log, where] = process.argv.slice(2)
const die = () => process.kill(process.pid, 'SIGKILL')

const square = memo('square', {
  version: 1,
  run: async (n) => {
    appendFileSync(log, 'run\n')
    if (where === 'in') die()
    return n * n
  },
})
const { recall } = square[recalls]
square[recalls].recall = async (...given) => {
  const recalled = await recall(...given)
  if (where === 'computed') die()
  return recalled
}
const flow = workflow('flow', async (ctx, n) => {
  const result = await ctx.memo(square, n)
  await ctx.step('after', () => (where === 'recorded' ? die() : null))
  return result
})

const rp = await open(`sqlite:${store}`, { housekeeping: false })
const run = rp.run(flow, 7, { id })
console.log(JSON.stringify(await run.result()))
await rp.close()
