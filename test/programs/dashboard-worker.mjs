// A worker of the dashboard's kill test: a run of four steps, each of which waits until a file says that it may go on. Arguments:
// store URL, folder with the files, name of the worker.

import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { open } from '../../dist/index.js'
import { workflow } from '../../dist/layers/workflow/index.js'

const [, , url, folder, name] = process.argv

const parcel = workflow('parcel', async (ctx) => {
  for (const step of ['pack', 'label', 'hand-over', 'notify']) {
    await ctx.step(step, async () => {
      while (!existsSync(join(folder, step))) await new Promise((resolve) => setTimeout(resolve, 20))
      return { by: name }
    })
  }
  return 'sent'
})

const rp = await open(url, { lease: '2s', worker: name })
rp.work([parcel])
if (name === 'first') await rp.run(parcel, { id: 'p-1' })
process.send?.('ready')
// The engine's own timers keep no process alive.
setInterval(() => undefined, 1000)
