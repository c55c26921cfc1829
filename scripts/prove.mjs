// npm run prove -- [--only ID]… [--share 0.05] [--for 10m] [--list]: runs the proof of every promise at its full target, slice
// by slice, and writes its progress into docs/proofs.md. It takes hours and is a job like any other: after a kill, an
// interruption or the end of `--for`, the same command continues it. A failed slice does not count; it prints the reason and the
// command that repeats it, and the next run tries it again. An interrupted slice does not count either. Results belong to a
// commit: another commit starts again, and has rows of its own.

import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'
import { toMs } from '../dist/core/duration.js'
import { open } from '../dist/index.js'
import { job, redriveLetters, stopOnSignals } from '../dist/layers/job/index.js'
import { table } from '../dist/layers/table/index.js'
import { rowsOf, updatePage } from './prove-page.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))
const { values } = parseArgs({
  options: {
    only: { type: 'string', multiple: true },
    share: { type: 'string', default: '1' },
    for: { type: 'string' },
    grace: { type: 'string', default: '30s' },
    list: { type: 'boolean', default: false },
    store: { type: 'string', default: join(root, '.reprise/prove.db') },
    page: { type: 'string', default: join(root, 'docs/proofs.md') },
    plan: { type: 'string', default: join(root, 'scripts/prove-plan.mjs') },
  },
})
const { proofs } = await import(pathToFileURL(resolve(values.plan)).href)
const share = Number(values.share)
if (!(share > 0 && share <= 1)) stop('--share is a number above 0, up to 1')
for (const id of values.only ?? []) {
  if (!proofs.some((proof) => proof.id === id || proof.promises.includes(id)))
    stop(`--only is one of ${proofs.map((proof) => proof.id).join(', ')}, or a promise such as G7`)
}
const forMs = values.for === undefined ? null : toMs(values.for, '--for')
const isWanted = ({ id, promises }) =>
  !values.only || values.only.some((wanted) => wanted === id || promises.split(/[ ,]+/).includes(wanted))
const wanted = proofs.filter(isWanted)
if (values.list) {
  for (const { id, promises, what, target } of wanted)
    console.log(`${id}  ${promises}  ${target.toLocaleString('en-US')} ${what}`)
  process.exit(0)
}

/** The exit code of a program that was stopped by a request. */
const interruptions = new Set(['SIGINT', 'SIGTERM', 'SIGHUP', 129, 130, 143])
const commit = commitOf()
const rp = await open(`sqlite:${values.store}`, { housekeeping: false })
const results = await rp.open(table('proofs'))
const slices = wanted.flatMap(slicesOf).sort((a, b) => a.progress - b.progress)
const keyOf = ({ proof, from }) => `${commit}/${proof}/${from}`
const prove = job('prove', {
  source: slices,
  key: keyOf,
  concurrency: 1,
  grace: values.grace,
  retry: { attempts: 1 },
  each: runSlice,
})

// Failed slices are tried again: a slice counts once it has passed, and its number of failures is kept.
if (await rp.head('job/prove')) await redriveFailed()
const run = await rp.run(prove)
stopOnSignals(run, (text) => console.log(text))
const timer = forMs === null ? null : setTimeout(endOfTime, forMs)
const report = await run.result().catch((error) => error)
clearTimeout(timer)
const rows = rowsOf(
  proofs,
  [...results.entries()].map(([, row]) => row),
)
updatePage(values.page, rows)
const left = slices.filter((slice) => !results.get(keyOf(slice))?.isOk).length
await rp.close()
const failed = rows.filter((row) => row.commit === commit && row.failed > 0)
for (const row of rows.filter((each) => each.commit === commit)) {
  console.log(`${row.id}: ${row.done} of ${row.target} ${row.what}, ${row.failed} slices failed`)
}
if (!('done' in report)) console.log(String(report))
if (left > 0) console.log(`${left} of ${slices.length} slices are left: the same command goes on with them`)
process.exitCode = failed.length > 0 || !('done' in report) ? 1 : 0

/**
 * The first slices of all proofs: a larger share continues where a smaller one ended. `progress`: the share of its proof that is
 * done when the slice begins. The least advanced proofs come first, so that all proofs advance together, and a run that ends
 * early has some of each.
 */
function slicesOf({ id, target, size }) {
  const count = Math.ceil((target * share) / size)
  return Array.from({ length: count }, (_, i) => ({
    proof: id,
    from: i * size,
    count: Math.min(size, target - i * size),
    progress: (i * size) / target,
  }))
}

async function runSlice({ proof: id, from, count }, ctx) {
  const proof = proofs.find((each) => each.id === id)
  const env = proof.env?.(count, from) ?? {}
  const command = [...proof.command, ...(proof.args?.(count, from) ?? [])]
  const repeat = [...Object.entries(env).map(([name, value]) => `${name}=${value}`), ...command].join(' ')
  const began = Date.now()
  const { trouble, isInterrupted, text } = await runOnce(proof, command, env, ctx.signal)
  // A person stopped the run: it proves nothing either way, and the next run repeats the slice.
  if (ctx.signal.aborted) throw ctx.signal.reason
  const key = keyOf({ proof: id, from })
  const before = results.get(key)
  const row = {
    proof: id,
    commit,
    from,
    count,
    at: new Date().toISOString().slice(0, 10),
    ms: Date.now() - began,
    isOk: trouble === null,
    failures: (before?.failures ?? 0) + (trouble === null || isInterrupted ? 0 : 1),
  }
  await results.set(key, row)
  updatePage(
    values.page,
    rowsOf(
      proofs,
      [...results.entries()].map(([, each]) => each),
    ),
  )
  if (trouble === null) return
  const place = keepText(key, text)
  console.log(
    `${key} ${isInterrupted ? 'was interrupted' : 'failed'}: ${trouble}\nall it said: ${place}\nrepeat it: ${repeat}`,
  )
  throw new Error(`${trouble}; repeat it: ${repeat}`)
}

/** `trouble`: null if it passed, and proved its promise. `isInterrupted`: a signal ended it, not a finding. */
async function runOnce(proof, [program, ...args], env, signal) {
  const folder = mkdtempSync(join(tmpdir(), 'reprise-prove-'))
  const report = join(folder, 'report.json')
  const reporters = proof.proves ? ['--reporter=json', `--outputFile.json=${report}`] : []
  try {
    const { code, killedBy, said } = await runAlone(program, [...args, ...reporters], env, signal)
    const isInterrupted = interruptions.has(killedBy) || interruptions.has(code)
    // The report has the output of the tests; standard output does not.
    const tests = existsSync(report) ? testsOf(JSON.parse(readFileSync(report, 'utf8'))) : []
    const failures = tests.filter(({ status }) => status === 'failed').map(({ title, why }) => `${title}: ${why}`)
    const text = [...failures, said].join('\n\n')
    if (code !== 0) {
      const why = failures.length > 0 ? shorten(failures[0]) : shorten(said.trim().split('\n').slice(-6).join(' | '))
      return { trouble: `it ended with ${killedBy ?? code}: ${why}`, isInterrupted, text }
    }
    const isProved = !proof.proves || tests.some(({ status, title }) => status === 'passed' && proof.proves.test(title))
    return { trouble: isProved ? null : 'nothing was proved: its test was skipped', isInterrupted: false, text }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/**
 * In a process group of its own: an interruption of this program does not reach its children, which would count as failures.
 */
async function runAlone(program, args, env, signal) {
  const child = spawn(program === 'node' ? process.execPath : program, args, {
    cwd: root,
    env: { ...process.env, ...Object.fromEntries(Object.entries(env).map(([name, value]) => [name, String(value)])) },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  })
  let said = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (piece) => {
      said = (said + piece).slice(-100_000)
    })
  }
  const kill = (name) => {
    try {
      if (child.pid !== undefined) process.kill(-child.pid, name)
    } catch {
      // It has ended.
    }
  }
  let timer
  const end = () => {
    kill('SIGTERM')
    timer = setTimeout(() => kill('SIGKILL'), 10_000)
  }
  const endNow = () => kill('SIGTERM')
  signal.addEventListener('abort', end)
  process.once('exit', endNow)
  try {
    return await new Promise((done) => {
      child.once('error', (error) => done({ code: null, killedBy: error.message, said }))
      child.once('close', (code, killedBy) => done({ code, killedBy, said }))
    })
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', end)
    process.off('exit', endNow)
  }
}

function testsOf({ testResults }) {
  return testResults.flatMap(({ name, status, message, assertionResults }) => {
    const tests = assertionResults.map((test) => {
      return { status: test.status, title: test.title, why: (test.failureMessages ?? []).join('\n') }
    })
    // A file that could not be loaded has no tests.
    const isBroken = status === 'failed' && !tests.some((test) => test.status === 'failed')
    return isBroken ? [...tests, { status: 'failed', title: name, why: message }] : tests
  })
}

function shorten(text) {
  return text.length > 600 ? `${text.slice(0, 600)} …` : text
}

/** Beside the store of results; only the last one of each slice is kept. */
function keepText(key, text) {
  const folder = `${values.store}-failures`
  mkdirSync(folder, { recursive: true })
  const place = join(folder, `${key.replaceAll('/', '-')}.txt`)
  writeFileSync(place, text)
  return place
}

function endOfTime() {
  console.log(`the time is over: what is in flight gets ${values.grace}`)
  void run.stop({ reason: 'the time is over' }).catch(() => undefined)
}

/** Only the proofs that were requested. */
async function redriveFailed() {
  const keys = slices.map(keyOf).filter((key) => results.get(key)?.isOk === false)
  if (keys.length > 0) await redriveLetters(rp, 'job/prove', keys)
}

/** The commit of this proof, marked if the tree has uncommitted changes. */
function commitOf() {
  const git = (...args) => spawnSync('git', args, { cwd: root, encoding: 'utf8' }).stdout?.trim() ?? ''
  const head = git('rev-parse', '--short=10', 'HEAD') || 'unknown'
  const changed = git('status', '--porcelain', '--', 'src', 'test', 'package-lock.json')
  return changed === '' ? head : `${head}+changes`
}

function stop(message) {
  console.error(message)
  process.exit(2)
}
