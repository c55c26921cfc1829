// npm run simulate -- --seeds 10000 --from 1 [--plant BUG] [--simulation main] [--threads 2] [--verbose]
// Exits with 1 and the command that repeats it when a seed breaks a promise. --verbose prints every event of the seeds.

import { parseArgs } from 'node:util'
import { commandFor, runCampaign } from './campaign.mjs'
import { plants } from './plants.mjs'
import { simulations } from './simulations.mjs'
import { stackOf } from './violation.mjs'

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '1000' },
    from: { type: 'string', default: '1' },
    plant: { type: 'string' },
    simulation: { type: 'string' },
    threads: { type: 'string', default: '2' },
    verbose: { type: 'boolean', default: false },
  },
})
const seeds = wholeNumber('seeds', values.seeds)
const from = wholeNumber('from', values.from)
const threads = wholeNumber('threads', values.threads)
const plant = values.plant ?? null
if (plant !== null && !(plant in plants)) stop(`--plant is one of ${Object.keys(plants).join(', ')}`)

const simulation = values.simulation ?? (plant === null ? undefined : plants[plant]?.simulation) ?? 'main'
if (!(simulation in simulations)) stop(`--simulation is one of ${Object.keys(simulations).join(', ')}`)

const failed = values.verbose ? await printEvents() : await runQuietly()
process.exitCode = failed ? 1 : 0

async function runQuietly() {
  const report = await runCampaign({ from, seeds, plant, simulation, threads, onSeed: showProgress })
  const { done, events, ms, failure, recoveries, replay99 } = report
  const rate = (1000 * done) / ms
  console.log(`${done} seeds, ${events} events, ${rate.toFixed(0)} seeds/s`)
  console.log(`${recoveries} recoveries; 99 of 100 replayed at most ${replay99.toFixed(2)} intervals`)
  if (failure) console.log(`seed ${failure.seed} broke a promise: ${failure.message}\nrepeat it: ${failure.command}`)
  return failure !== null
}

async function printEvents() {
  /** @type {unknown} */
  let stray = null
  process.on('unhandledRejection', (error) => {
    stray ??= error
  })
  for (let seed = from; seed < from + seeds; seed++) {
    const { violation } = await simulations[simulation](seed, { plant, print: console.log })
    if (!violation && !stray) continue
    console.log(
      `seed ${seed} broke a promise: ${violation?.message ?? stackOf(stray)}\nrepeat it: ${commandFor(seed, plant, simulation)}`,
    )
    return true
  }
  return false
}

function showProgress(done) {
  if (process.stdout.isTTY && done % 100 === 0) process.stdout.write(`\r${done} of ${seeds} seeds\r`)
}

function wholeNumber(name, text) {
  const number = Number(text)
  if (!Number.isSafeInteger(number) || number < 0) stop(`--${name} is a whole number, not ${text}`)
  return number
}

function stop(message) {
  console.error(message)
  process.exit(2)
}
