// Many seeds on several threads, in order, until one fails. What failed comes with the command that repeats it.

import { Worker } from 'node:worker_threads'
import { plants } from './plants.mjs'

const seedsAtOnce = 20

/**
 * @typedef {{ readonly seed: number, readonly message: string, readonly command: string }} CampaignFailure
 * @typedef {object} CampaignReport
 * @property {number} done
 * @property {number} events
 * @property {number} ms
 * @property {CampaignFailure | null} failure
 * @property {number} recoveries
 * @property {number} replayMedian Entries replayed by a recovery, as a share of the interval of the policy: the median,
 * @property {number} replay99 and the 99th of 100.
 *
 * @typedef {object} CampaignOptions
 * @property {number} [from]
 * @property {number} seeds
 * @property {readonly number[]} [first] Seeds to try before all others, in one thread; one that fails ends the campaign.
 * @property {string | null} [plant]
 * @property {string} [simulation] `main` unless the plant has another.
 * @property {number} [threads]
 * @property {(done: number) => void} [onSeed]
 */

/** @param {CampaignOptions} options @returns {Promise<CampaignReport>} */
export async function runCampaign({
  from = 1,
  seeds,
  first = [],
  plant = null,
  simulation,
  threads = 2,
  onSeed = () => {},
}) {
  const name = simulation ?? (plant === null ? undefined : plants[plant]?.simulation) ?? 'main'
  const started = performance.now()
  const end = from + seeds
  let next = from
  let done = 0
  let events = 0
  /** @type {{ failure: CampaignFailure | null }} */
  const found = { failure: null }
  /** @type {{ readonly share: number }[]} */
  const replays = []

  const hear = (report) => {
    done += 1
    events += report.events
    for (const one of report.replays) replays.push(one)
    // The lowest seed counts, whichever thread was first: so a campaign has the same result each time.
    if (report.message && (!found.failure || report.seed < found.failure.seed)) {
      found.failure = { seed: report.seed, message: report.message, command: commandFor(report.seed, plant, name) }
    }
    onSeed(done)
  }

  /** @param {(worker: Worker) => Promise<void>} work */
  const inThread = async (work) => {
    const worker = new Worker(new URL('./worker.mjs', import.meta.url), {
      workerData: { plant, simulation: name },
      resourceLimits: { maxYoungGenerationSizeMb: 64 },
    })
    try {
      await work(worker)
    } finally {
      await worker.terminate()
    }
  }

  if (first.length > 0)
    await inThread(async (worker) => {
      for (const seed of first) if (!found.failure) await simulatePart(worker, { from: seed, to: seed + 1 }, hear)
    })
  const isFound = found.failure !== null
  await Promise.all(
    Array.from({ length: isFound ? 0 : Math.min(threads, seeds) }, () =>
      inThread(async (worker) => {
        while (next < end && !(found.failure && found.failure.seed < next)) {
          const part = { from: next, to: Math.min(next + seedsAtOnce, end) }
          next = part.to
          await simulatePart(worker, part, hear)
        }
      }),
    ),
  )
  return { done, events, ms: performance.now() - started, failure: found.failure, ...replayFigures(replays) }
}

/** @param {number} seed @param {string | null} plant */
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

/**
 * Of all recoveries: the replayed entries, as a share of the policy's interval (G9). @param {readonly { readonly share:
 * number }[]} replays
 */
function replayFigures(replays) {
  const shares = replays.map((one) => one.share).sort((a, b) => a - b)
  const at = (/** @type {number} */ share) =>
    shares[Math.min(shares.length - 1, Math.floor(share * shares.length))] ?? 0
  return { recoveries: shares.length, replayMedian: at(0.5), replay99: at(0.99) }
}
