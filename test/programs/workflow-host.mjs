// A worker process that pretends to run on another host, so that its process cannot be checked: for tests of takeover between
// hosts. Arguments: store URL, namespace, host, lease, file for its calls, duration of a step in ms.

import { appendFileSync } from 'node:fs'
import { openStore } from '../../dist/engine/api/open.js'
import { workflow } from '../../dist/layers/workflow/index.js'
import { createEngine } from '../../dist/store.js'

const [, , url, namespace, host, lease, file, stepMs] = process.argv

const order = workflow('order', async (ctx, n) => {
  let sum = 0
  for (let i = 0; i < n; i++) {
    sum += await ctx.step(`step ${i}`, async ({ key }) => {
      appendFileSync(file, `${host} ${key}\n`)
      await new Promise((resolve) => setTimeout(resolve, Number(stepMs)))
      return 1
    })
  }
  return sum
})

const store = await openStore(url, { namespace })
const rp = createEngine({ store, identity: { host, process: `1:${process.pid}:1` } }, { lease, worker: host })
rp.events.on('problem', ({ where, error }) => process.stderr.write(`${where}: ${error?.message ?? error}\n`))
rp.events.on('worker-retired', ({ worker, because }) => process.send?.({ retired: worker, because }))
rp.work([order])
process.send?.('ready')
setInterval(() => undefined, 1000)
