// The other process of the suite `start`: node start-worker.mjs KIND URL [loaded]. It executes the runs that its parent starts,
// and reports each first step with its time. Loaded: it executes runs of its own meanwhile, eight at a time.

import { open } from '../../dist/index.js'
import { workflow } from '../../dist/layers/workflow/index.js'
import { queues } from './within-peers.mjs'

const [, , kind, url, loaded] = process.argv
const began = (id) => process.send({ began: id, at: performance.timeOrigin + performance.now() })

const order = workflow('order', async (ctx, id) => {
  await ctx.step('first', () => began(id))
})
const busy = workflow('busy', async (ctx) => {
  for (let i = 0; i < 3; i++) await ctx.step('work', () => i)
})

async function reprise() {
  const rp = await open(url)
  rp.work([order])
  let isOver = false
  const keepBusy = async () => {
    while (!isOver) await (await rp.run(busy)).result()
  }
  const loops = Array.from({ length: loaded ? 8 : 0 }, keepBusy)
  return {
    async stop() {
      isOver = true
      await Promise.all(loops)
      await rp.close()
    },
  }
}

const worker = kind === 'reprise' ? await reprise() : await queues[kind](url, began)
process.on('message', async () => {
  await worker?.stop()
  process.disconnect()
})
process.send({ ready: worker !== null })
