// npm run soak -- [--for 1h] [--store sqlite|postgres|sqlite-shards|postgres-shards] [--rate 4]
//                 [--plant memory|descriptors|transaction]
//
// A driver puts a steady load on everything that lasts (loads.mjs): runs with steps, timers, signals and SQL behind a queue
// with limits, a schedule, jobs, aggregates with a projection, a table, agent sessions, forks and rollbacks; ended timelines
// expire, and the store is collected every minute. One of two workers is killed with SIGKILL again and again, or suspended
// past its lease; the store is locked, cut, restarted and crashed (worlds.mjs). At the end every acknowledged write must be
// stored exactly once, `verify` must be clean, and these figures must have stayed flat (judge.mjs): memory and descriptors of
// the worker that is never killed and of the driver, the bytes of each table, dead rows, processor time per order, and times
// as ratios to a bare probe beside it. Otherwise it ends with 1; with --plant it leaks, and must end with 1.

import { fork } from 'node:child_process'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { toMs } from '../../dist/core/duration.js'
import { open } from '../../dist/index.js'
import { judge, medianOf } from './judge.mjs'
import { Loads } from './loads.mjs'
import { cpuMsOf, measureOther, measureSelf } from './measure.mjs'
import { grace, orderAppends, orderFixedMs } from './model.mjs'
import { makeWorld } from './worlds.mjs'

const { values } = parseArgs({
  options: {
    for: { type: 'string', default: '1h' },
    store: { type: 'string', default: 'sqlite' },
    rate: { type: 'string', default: '4' },
    plant: { type: 'string' },
  },
})
const forMs = toMs(values.for, '--for')
const windowMs = forMs / 30
const world = await makeWorld(values.store)
const rp = await open(world.url, { housekeeping: false, grace })
await world.prepare()
const end = Date.now() + forMs
const loads = new Loads(rp, world, Number(values.rate), end)
const faults = { kills: 0, stops: 0 }
const problems = new Map()
const windows = []
const probes = []
/** Processor time of workers that are gone. */
let cpuGone = 0
let isEnding = false

if (values.plant === 'transaction') await world.plantTransaction()
const steady = startWorker(values.plant ?? '')
let mortal = startWorker('')
const probe = startProcess('probe.mjs', [world.probeUrl], (message) => probes.push(message))
const isOver = () => Date.now() >= end || loads.wrong.length > 0
await Promise.all([loads.run(), killing(), storeFaults(), sampling()].map((each) => each.catch(fail)))
await loads.finish(Date.now() + 180_000).catch(fail)
const { faults: damage } = await rp.verify()
const tables = await world.tables()
const sizes = await world.sizes()
isEnding = true
for (const each of [steady, mortal, probe]) each.kill('SIGKILL')
await rp.close()
await world.stop()
report()

function fail(error) {
  loads.wrong.push(error?.stack ?? String(error))
}

function startWorker(leak) {
  return startProcess('worker.mjs', [world.url, leak], ({ batch, isDone, status, problem }) => {
    if (problem) problems.set(problem.slice(0, 150), (problems.get(problem.slice(0, 150)) ?? 0) + 1)
    if (batch !== undefined && isDone) loads.batchDone(batch)
    else if (batch !== undefined) loads.wrong.push(`batch ${batch} ended as ${status}`)
  })
}

function startProcess(file, args, hear) {
  const child = fork(fileURLToPath(new URL(file, import.meta.url)), args, { execArgv: ['--expose-gc'] })
  child.on('message', hear)
  child.on('exit', (code) => {
    if (code !== null && !isEnding) loads.wrong.push(`${file} ended with ${code}`)
  })
  return child
}

/**
 * Killed, or every fourth time stopped for longer than its lease: then it continues and finds that other workers took over.
 */
async function killing() {
  for (let n = 1; !isOver(); n++) {
    await pauseWithin(15_000 + Math.random() * 15_000)
    if (n % 4 === 0) {
      mortal.kill('SIGSTOP')
      faults.stops += 1
      await pauseWithin(12_000)
      mortal.kill('SIGCONT')
    } else {
      cpuGone += cpuMsOf(mortal.pid)
      mortal.kill('SIGKILL')
      faults.kills += 1
      mortal = startWorker('')
    }
  }
}

async function storeFaults() {
  const kinds = world.faults.filter(({ name }) => values.plant !== 'transaction' || name === 'lock')
  for (let n = 0; !isOver() && kinds.length > 0; n++) {
    await pauseWithin(15_000 + Math.random() * 10_000)
    const { name, make } = kinds[n % kinds.length]
    await make()
    faults[name] = (faults[name] ?? 0) + 1
  }
}

async function sampling() {
  let before = { cpu: await cpuMs(), done: 0 }
  for (let at = Date.now() + windowMs; !isOver(); at += windowMs) {
    const resident = []
    while (Date.now() < at) {
      await pauseWithin(Math.min(2000, at - Date.now()))
      resident.push(measureOther(steady.pid))
    }
    const now = { cpu: await cpuMs(), done: loads.seen.done }
    windows.push(await readWindow(resident, { cpu: now.cpu - before.cpu, done: now.done - before.done }))
    before = now
    const told = { minutes: Math.round((windows.length * windowMs) / 6000) / 10, ...rounded(windows.at(-1)) }
    console.log(JSON.stringify({ ...told, ...loads.seen, ...faults, open: loads.unfinished }))
  }
}

async function readWindow(resident, { cpu, done }) {
  const worker = await ask(steady)
  const own = measureSelf()
  const [bare, appends, orders] = [probes.splice(0), loads.appendTimes.splice(0), loads.orderTimes.splice(0)]
  const bareMs = medianOf(bare.map((each) => each.bareMs))
  const appendMs = medianOf(appends)
  const orderMs = medianOf(orders)
  return {
    'worker.heapMb': worker?.heapMb,
    'worker.residentMb': medianOf(resident.map(({ residentMb }) => residentMb)),
    'worker.descriptors': medianOf(resident.map(({ descriptors }) => descriptors)),
    'driver.heapMb': own.heapMb,
    'driver.residentMb': own.residentMb,
    'driver.descriptors': own.descriptors,
    ...(await world.sizes()),
    timelines: (await rp.list({ limit: 5000 }).catch(() => null))?.length,
    ...{ bareMs, appendMs, appendRatio: appendMs / bareMs },
    ...{ orderMs, orderRatio: orderMs / (orderFixedMs + orderAppends * appendMs) },
    cpuMsPerOrder: done > 0 ? cpu / done : undefined,
  }
}

async function ask(worker) {
  const answer = new Promise((resolve) => {
    const hear = (message) => {
      if (message.measure === undefined) return
      worker.off('message', hear)
      resolve(message.of)
    }
    worker.on('message', hear)
  })
  worker.send({ measure: true })
  return await Promise.race([answer, pause(30_000, undefined, { ref: false })])
}

async function cpuMs() {
  return (
    cpuGone + [steady.pid, mortal.pid, process.pid].reduce((sum, pid) => sum + cpuMsOf(pid), 0) + (await world.cpuMs())
  )
}

/** A fault must not outlast the load. */
async function pauseWithin(ms) {
  await pause(Math.max(0, Math.min(ms, end - Date.now())))
}

function rounded(figures) {
  return Object.fromEntries(Object.entries(figures).map(([key, value]) => [key, value && Number(value.toFixed(2))]))
}

function report() {
  const verdicts = judge(windows)
  const isFlat = verdicts.every(({ isFlat }) => isFlat !== false)
  const isSound = loads.wrong.length + loads.seen.doubled + damage.length === 0
  console.log(`\n${values.store}, ${values.for}, ${values.rate} orders/s\n`)
  console.log('| figure | first third | last third | rise | allowed | flat |\n|---|---|---|---|---|---|')
  for (const { figure, first, last, rise, allowed, isFlat } of verdicts) {
    const numbers = [first, last, rise, allowed].map((n) => (n === null ? '' : n.toFixed(2)))
    console.log(`| ${figure} | ${numbers.join(' | ')} | ${isFlat === null ? '' : isFlat ? 'yes' : '**no**'} |`)
  }
  console.log(`\n${JSON.stringify({ ...loads.seen, ...faults, damage: damage.length })}`)
  console.log(`left after the last collection: ${JSON.stringify(rounded(sizes))}`)
  for (const each of tables) console.log(JSON.stringify(each))
  for (const [problem, count] of problems) console.log(`told by workers, ${count} times: ${problem}`)
  for (const each of loads.wrong.slice(0, 20)) console.log(`WRONG: ${each}`)
  const words = [isSound ? 'nothing lost, nothing doubled' : 'NOT SOUND', isFlat ? 'flat' : 'NOT FLAT']
  console.log(words.join(', '))
  process.exit(isSound && isFlat ? 0 : 1)
}
