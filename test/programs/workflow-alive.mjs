// Awaits a run that sleeps, with nothing else to keep the process alive, then works for others until it is closed.

import { open } from '../../lib/index.js'
import { workflow } from '../../lib/layers/workflow/index.js'

const rp = await open(process.argv[2])
const nap = workflow('nap', async (ctx) => {
  await ctx.sleep('300ms')
  return 'rested'
})
console.log(await (await rp.run(nap, { id: 'one' })).result())
await rp.close()
