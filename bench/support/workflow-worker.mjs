// A worker for the recovery benches: starts runs that hang in a step and reports it, or starts after a kill (or waits for one)
// and reports when all of the runs are executing again. With a host name it acts as if it ran on that host, with a lease of ten
// minutes: only a missed session can show that it died.

import { openStore } from '../../dist/engine/api/open.js'
import { open } from '../../dist/index.js'
import { workflow } from '../../dist/layers/workflow/index.js'
import { createEngine } from '../../dist/store.js'

const [, , url, countText, mode, host] = process.argv
const count = Number(countText)
let inFlight = 0
let onAll = () => undefined

const hanging = workflow('hanging', async (ctx) => {
  await ctx.step('first', () => 1)
  await ctx.step('hang', () => {
    inFlight += 1
    if (inFlight === count) onAll()
    return mode === 'start' ? new Promise(() => undefined) : 2
  })
})

const startedAt = performance.now()
const rp = host
  ? createEngine(
      { store: await openStore(url, {}), identity: { host, process: `1:${process.pid}:1` } },
      { worker: host, lease: '10m' },
    )
  : await open(url)
const all = new Promise((resolve) => {
  onAll = resolve
})
if (mode === 'start') await Promise.all(Array.from({ length: count }, (_, i) => rp.run(hanging, { id: `h${i}` })))
else rp.work([hanging])
if (mode === 'wait') process.send('ready')
await all
process.send({ resumed: inFlight, ms: performance.now() - startedAt })
if (mode === 'start') setInterval(() => undefined, 1000)
else {
  await rp.close()
  process.disconnect()
}
