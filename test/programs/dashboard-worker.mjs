// A worker of the dashboard's kill tests: a run of four steps, each of which waits until a file exists, and a run that waits
// for a signal before such a step. Arguments: store URL, folder with the files, name of the worker.

import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { open } from '../../lib/index.js'
import { workflow } from '../../lib/layers/workflow/index.js'

const [, , url, folder, name] = process.argv

const onceAllowed = async (step) => {
  while (!existsSync(join(folder, step))) await new Promise((resolve) => setTimeout(resolve, 20))
  return { by: name }
}

const parcel = workflow('parcel', async (ctx) => {
  for (const step of ['pack', 'label', 'hand-over', 'notify']) await ctx.step(step, () => onceAllowed(step))
  return 'sent'
})

const letter = workflow('letter', async (ctx) => {
  await ctx.signal('stamped')
  return await ctx.step('post', () => onceAllowed('post'))
})

const rp = await open(url, { lease: '2s', worker: name })
rp.work([parcel, letter])
if (name === 'first') await rp.run(parcel, { id: 'p-1' })
if (name === 'postman') for (const id of ['l-1', 'l-2']) await rp.run(letter, { id })
process.send?.('ready')
// The engine's own timers keep no process alive.
setInterval(() => undefined, 1000)
