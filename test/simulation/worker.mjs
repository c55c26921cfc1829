// One thread of a campaign: simulates the seeds it is given, one after another, and reports each.

import { parentPort, workerData } from 'node:worker_threads'
import { simulations } from './simulations.mjs'
import { stackOf } from './violation.mjs'

const { plant, simulation } = workerData
const simulate = simulations[simulation]
/** @type {unknown} */
let stray = null
const port = /** @type {import('node:worker_threads').MessagePort} */ (parentPort)
process.on('unhandledRejection', (error) => {
  stray ??= error
})

port.on('message', async ({ from, to }) => {
  for (let seed = from; seed < to; seed++) {
    stray = null
    const { violation, traceHash, events, replays } = await simulate(seed, { plant })
    const message = violation?.message ?? (stray !== null && `BUG: unhandled rejection: ${stackOf(stray)}`)
    port.postMessage({ seed, message, traceHash, events, replays })
    if (message) break
  }
  port.postMessage({ isDone: true })
})
