// Many seeds on several threads, in order, until one fails. What failed comes with the command that repeats it.

import { Worker } from 'node:worker_threads'
import { plants } from './plants.mjs'

const seedsAtOnce = 20

/**
 * @param {{ from?: number, seeds: number, plant?: string | null, simulation?: string, threads?: number, onSeed?: (done:
 * number) => void }} options
 * @returns {Promise<{ done: number, events: number, ms: number, failure: null | { seed: number, message: string,
 * command: string }, replayShare: number }>}
 */
export async function runCampaign({ from = 1, seeds, plant = null, simulation, threads = 2, onSeed = () => {} }) {
  const name = simulation ?? plants[plant]?.simulation ?? 'main'
  const started = performance.now()
  const end = from + seeds
  let next = from
  let done = 0
  let events = 0
  let failure = null
  const replays = []

  const hear = (report) => {
    done += 1
    events += report.events
    for (const one of report.replays) replays.push(one)
    // The lowest seed counts, whichever thread was first: so a campaign says the same each time.
    if (report.message && (!failure || report.seed < failure.seed)) {
      failure = { seed: report.seed, message: report.message, command: commandFor(report.seed, plant, name) }
    }
    onSeed(done)
  }

  await Promise.all(
    Array.from({ length: Math.min(threads, seeds) }, async () => {
      const worker = new Worker(new URL('./worker.mjs', import.meta.url), {
        workerData: { plant, simulation: name },
        resourceLimits: { maxYoungGenerationSizeMb: 64 },
      })
      try {
        while (next < end && !(failure && failure.seed < next)) {
          const part = { from: next, to: Math.min(next + seedsAtOnce, end) }
          next = part.to
          await simulatePart(worker, part, hear)
        }
      } finally {
        await worker.terminate()
      }
    }),
  )
  return { done, events, ms: performance.now() - started, failure, ...replayFigures(replays) }
}

export function commandFor(seed, plant, simulation = 'main') {
  const which = simulation === 'main' ? '' : ` --simulation ${simulation}`
  return `npm run simulate -- --seeds 1 --from ${seed}${plant ? ` --plant ${plant}` : ''}${which} --verbose`
}

function simulatePart(worker, part, hear) {
  return new Promise((resolve, reject) => {
    const stop = (settle, value) => {
      worker.off('message', onMessage)
      worker.off('error', onError)
      settle(value)
    }
    const onMessage = (report) => (report.isDone ? stop(resolve) : hear(report))
    const onError = (error) => stop(reject, error)
    worker.on('message', onMessage)
    worker.on('error', onError)
    worker.postMessage(part)
  })
}

/** Of all recoveries: how many entries were replayed, as a share of the policy's interval (G9). */
function replayFigures(replays) {
  const shares = replays.map((one) => one.share).sort((a, b) => a - b)
  const at = (share) => shares[Math.min(shares.length - 1, Math.floor(share * shares.length))] ?? 0
  return { recoveries: shares.length, replayMedian: at(0.5), replay99: at(0.99) }
}
