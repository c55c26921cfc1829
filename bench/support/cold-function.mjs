// A function in a new process: `node cold-function.mjs URL ID` starts a run, executes it as an invocation does, and prints
// the time of its first step.

import { lambdaHandler } from '../../lib/adapters/serverless/index.js'
import { open } from '../../lib/index.js'
import { workflow } from '../../lib/layers/workflow/index.js'

const [, , url, id] = process.argv
const step = workflow('step', async (ctx) => {
  await ctx.step('first', () => console.log(Date.now()))
})
const handler = lambdaHandler({
  open: async () => {
    const rp = await open(url)
    await rp.run(step, { id, here: false })
    return rp
  },
  work: [step],
  idle: 1,
})
await handler({}, { getRemainingTimeInMillis: () => 60_000 })
process.exit(0)
