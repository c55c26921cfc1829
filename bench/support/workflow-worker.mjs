// A worker for the recovery bench: starts runs that hang in a step and says so, or comes after a kill and says when all of
// them are being worked on again.

import { open } from '../../dist/index.js'
import { workflow } from '../../dist/layers/workflow/index.js'

const [, , url, countText, mode] = process.argv
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
const rp = await open(url)
const all = new Promise((resolve) => {
  onAll = resolve
})
if (mode === 'start')
  await Promise.all(Array.from({ length: count }, (_, i) => rp.run(hanging, undefined, { id: `h${i}` })))
else rp.work([hanging])
await all
process.send({ resumed: inFlight, ms: performance.now() - startedAt })
if (mode === 'start') setInterval(() => undefined, 1000)
else {
  await rp.close()
  process.disconnect()
}
