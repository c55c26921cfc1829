// Runs a suite of benches: npm run bench -- SUITE [--json] [--runs N] [--only NAME] [--record]. --record stores the results
// in bench/figures.json (figures.mjs).
// A suite is bench/SUITE.mjs; its default export (or `benches`) is an array of
//   { name, unit, target?, note?, setup?, run({ index }), teardown? }
// where run gives { value, baseline?, details? } or { skip: 'reason' }, value and baseline measured in the same run.
// Progress goes to stderr. Exit code: 0 also when a target is missed, 1 when a bench broke, 2 for a wrong call. A suite that
// exports `failsWhenMissed` is judged after any number of runs, and ends with 1 when a target is missed; one that exports
// `eachInItsProcess` has each bench measured in a process of its own.

import { spawn } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { loadavg } from 'node:os'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { record } from './figures.mjs'
import { judge, readTarget } from './judge.mjs'
import { median, spread } from './measure.mjs'
import { formatTable } from './table.mjs'

const runsForAFigure = 5
// Further helpers of suites go in bench/support/.
const notSuites = ['run.mjs', 'measure.mjs', 'judge.mjs', 'table.mjs', 'figures.mjs']

// Output of a suite must not spoil the one object on stdout.
console.log = console.error
process.exitCode = await main()

async function main() {
  const options = readOptions()
  if (options === undefined) return 2
  const { suite, runs, only, isJson, isRecorded } = options
  const [load] = loadavg()
  const loaded = await import(new URL(`./${suite}.mjs`, import.meta.url).href)
  const all = loaded.default ?? loaded.benches
  if (!Array.isArray(all)) return refuse(`bench/${suite}.mjs exports no array of benches`)
  const benches = all.filter((bench) => only === undefined || bench.name === only)
  if (benches.length === 0) return refuse(`suite ${suite} has no bench called ${only}`)
  if (runs < runsForAFigure && !loaded.failsWhenMissed)
    console.error(`${runs} runs: too few for a figure to quote, targets are not judged`)

  const results = []
  const isStrict = loaded.failsWhenMissed === true
  const isApart = loaded.eachInItsProcess === true && only === undefined
  for (const bench of benches)
    results.push(isApart ? await apart(suite, bench, runs) : await measure(bench, runs, isStrict))
  const text = isJson ? JSON.stringify({ suite, results }) : formatTable(suite, results)
  await new Promise((done) => process.stdout.write(`${text}\n`, done))
  if (isRecorded) record(suite, results, load)
  const hasFailed = ({ error, met }) => error !== undefined || (isStrict && met === false)
  return results.some(hasFailed) ? 1 : 0
}

function readOptions() {
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: {
        json: { type: 'boolean' },
        runs: { type: 'string' },
        only: { type: 'string' },
        record: { type: 'boolean' },
      },
    })
    const [suite, ...rest] = positionals
    const runs = Number(values.runs ?? runsForAFigure)
    if (suite === undefined || rest.length > 0) return void refuse('name one suite')
    if (!/^[a-z][a-z0-9-]*$/.test(suite) || !suites().includes(suite)) return void refuse(`no suite called ${suite}`)
    if (!Number.isInteger(runs) || runs < 1) return void refuse('--runs must be a whole number of at least 1')
    if (values.record && runs < runsForAFigure) return void refuse(`--record needs at least ${runsForAFigure} runs`)
    return { suite, runs, only: values.only, isJson: values.json === true, isRecorded: values.record === true }
  } catch (error) {
    return void refuse(error.message)
  }
}

function refuse(reason) {
  console.error(
    `${reason}\nnpm run bench -- SUITE [--json] [--runs N] [--only NAME] [--record]\nsuites: ${suites().join(', ')}`,
  )
  return 2
}

function suites() {
  return readdirSync(new URL('.', import.meta.url))
    .filter((name) => name.endsWith('.mjs') && !notSuites.includes(name))
    .map((name) => name.slice(0, -'.mjs'.length))
}

/** In a process of its own: memory that one bench leaves does not affect the next. */
async function apart(suite, { name, unit }, runs) {
  const args = [fileURLToPath(import.meta.url), suite, '--only', name, '--runs', String(runs), '--json']
  const child = spawn(process.execPath, [...process.execArgv, ...args], { stdio: ['ignore', 'pipe', 'inherit'] })
  let text = ''
  for await (const part of child.stdout) text += part
  try {
    return JSON.parse(text).results[0]
  } catch {
    return { name, value: null, unit, baseline: null, ratio: null, error: 'its process ended without a result' }
  }
}

async function measure(bench, runs, isStrict) {
  const head = { name: bench.name, value: null, unit: bench.unit, baseline: null, ratio: null }
  try {
    const target = readTarget(bench)
    await bench.setup?.()
    const samples = []
    try {
      for (let index = 0; index < runs; index++) {
        const sample = await bench.run({ index })
        if (sample.skip !== undefined) return { ...head, skipped: sample.skip }
        samples.push(checked(sample))
        console.error(
          `${bench.name} ${index + 1}/${runs}: ${sample.value} ${bench.unit}, ${sample.baseline ?? '-'} bare`,
        )
      }
    } finally {
      await bench.teardown?.()
    }
    const result = { ...head, ...summarize(samples), runs, note: bench.note, target }
    return { ...result, met: runs < runsForAFigure && !isStrict ? null : judge(target, result) }
  } catch (error) {
    console.error(`${bench.name} broke: ${error?.stack ?? error}`)
    return { ...head, error: String(error?.message ?? error) }
  }
}

function checked(sample) {
  const numbers = [sample.value, sample.baseline ?? 0, ...Object.values(sample.details ?? {})]
  if (!numbers.every(Number.isFinite))
    throw new Error(`a run gave something else than numbers: ${JSON.stringify(sample)}`)
  return sample
}

/** The ratio is the median of the ratios of single runs: a slow moment of the machine affects both sides of a run. */
function summarize(samples) {
  const values = samples.map((sample) => sample.value)
  const hasBaseline = samples.every((sample) => Number.isFinite(sample.baseline) && sample.baseline !== 0)
  const names = Object.keys(samples[0].details ?? {})
  const details = names.map((name) => [name, median(samples.map((sample) => sample.details[name]))])
  return {
    value: median(values),
    baseline: hasBaseline ? median(samples.map((sample) => sample.baseline)) : null,
    ratio: hasBaseline ? median(samples.map((sample) => sample.value / sample.baseline)) : null,
    spread: spread(values),
    ...(names.length > 0 && { details: Object.fromEntries(details) }),
  }
}
