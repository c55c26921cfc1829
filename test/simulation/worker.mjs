// One thread of a campaign: simulates the seeds it is given, one after another, and reports each.

import { parentPort, workerData } from 'node:worker_threads'
import { simulations } from './simulations.mjs'

const { plant, simulation } = workerData
const simulate = simulations[simulation]
let stray = null
process.on('unhandledRejection', (error) => {
  stray ??= error
})

parentPort.on('message', async ({ from, to }) => {
  for (let seed = from; seed < to; seed++) {
    stray = null
    const { violation, traceHash, events, replays } = await simulate(seed, { plant })
    const message = violation?.message ?? (stray && `BUG: unhandled rejection: ${stray.stack ?? stray}`)
    parentPort.postMessage({ seed, message, traceHash, events, replays })
    if (message) break
  }
  parentPort.postMessage({ isDone: true })
})
