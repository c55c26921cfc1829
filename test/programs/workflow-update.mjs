// Awaits an update that a run takes its time to answer, then the end of the engine, with nothing else to keep the process alive.

import { open } from '../../lib/index.js'
import { workflow } from '../../lib/layers/workflow/index.js'

const rp = await open(process.argv[2])
const counter = workflow('counter', async (ctx) => {
  ctx.onUpdate('add', async (n) => {
    await ctx.sleep('300ms')
    return n + 1
  })
  await ctx.step('hangs', () => new Promise(() => {}))
})
const run = await rp.run(counter, { id: 'one' })
console.log(await run.update('add', 1))
await rp.close()
console.log('closed')
