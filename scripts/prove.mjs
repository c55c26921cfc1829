// npm run prove -- [--only ID]… [--share 0.05] [--list]: runs the proof of every promise at its full target, slice by slice, and
// writes how far it came into docs/guarantees.md. It takes hours and is a job like any other: killed or interrupted, the
// same command goes on where it was. A slice that fails counts for nothing, prints the command that repeats it, and is tried
// again by the next run. Results belong to a commit: another commit starts from nothing, and has rows of its own.

import { spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'
import { open } from '../dist/index.js'
import { job, redriveLetters, stopOnSignals } from '../dist/layers/job/index.js'
import { table } from '../dist/layers/table/index.js'
import { rowsOf, updatePage } from './prove-page.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))
const { values } = parseArgs({
  options: {
    only: { type: 'string', multiple: true },
    share: { type: 'string', default: '1' },
    list: { type: 'boolean', default: false },
    store: { type: 'string', default: join(root, '.reprise/prove.db') },
    page: { type: 'string', default: join(root, 'docs/guarantees.md') },
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
const isWanted = ({ id, promises }) =>
  !values.only || values.only.some((wanted) => wanted === id || promises.split(/[ ,]+/).includes(wanted))
const wanted = proofs.filter(isWanted)
if (values.list) {
  for (const { id, promises, what, target } of wanted)
    console.log(`${id}  ${promises}  ${target.toLocaleString('en-US')} ${what}`)
  process.exit(0)
}

const commit = commitOf()
const rp = await open(`sqlite:${values.store}`, { housekeeping: false })
const results = await rp.open(table('proofs'))
const prove = job('prove', {
  source: wanted.flatMap(slicesOf).sort((a, b) => a.progress - b.progress),
  key: ({ proof, from }) => `${commit}/${proof}/${from}`,
  concurrency: 1,
  retry: { attempts: 1 },
  each: runSlice,
})

// What failed before is tried again: a slice counts once it has passed, and how often it failed is kept.
if (await rp.head('job/prove')) await redriveFailed()
const run = await rp.run(prove)
stopOnSignals(run, (text) => console.log(text))
const report = await run.result().catch((error) => error)
const rows = rowsOf(
  proofs,
  [...results.entries()].map(([, row]) => row),
)
updatePage(values.page, rows)
await rp.close()
const failed = rows.filter((row) => row.commit === commit && row.failed > 0)
for (const row of rows.filter((each) => each.commit === commit)) {
  console.log(`${row.id}: ${row.done} of ${row.target} ${row.what}, ${row.failed} slices failed`)
}
if (!('done' in report)) console.log(String(report))
process.exitCode = failed.length > 0 || !('done' in report) ? 1 : 0

/**
 * The first of all slices: a larger share goes on where a smaller one ended. `progress`: how far its proof is when it begins.
 * Those that are least far come first, so that all proofs advance together, and a run that is ended early has some of each.
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
  const trouble = await runOnce(proof, command, env, ctx.signal)
  // Somebody stopped the run: that says nothing about the proof, and the slice is done by the next run.
  if (ctx.signal.aborted) throw ctx.signal.reason
  const key = `${commit}/${id}/${from}`
  const before = results.get(key)
  const row = {
    proof: id,
    commit,
    from,
    count,
    at: new Date().toISOString().slice(0, 10),
    ms: Date.now() - began,
    isOk: trouble === null,
    failures: (before?.failures ?? 0) + (trouble === null ? 0 : 1),
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
  console.log(`${key} failed: ${trouble}\nrepeat it: ${repeat}`)
  throw new Error(`${trouble}; repeat it: ${repeat}`)
}

/** Null if it passed, and proved what it should. */
async function runOnce(proof, [program, ...args], env, signal) {
  const folder = mkdtempSync(join(tmpdir(), 'reprise-prove-'))
  const report = join(folder, 'report.json')
  const reporters = proof.proves ? ['--reporter=json', `--outputFile.json=${report}`] : []
  try {
    const child = spawn(program === 'node' ? process.execPath : program, [...args, ...reporters], {
      cwd: root,
      env: { ...process.env, ...Object.fromEntries(Object.entries(env).map(([name, value]) => [name, String(value)])) },
      stdio: ['ignore', 'pipe', 'pipe'],
      signal,
    })
    let said = ''
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (piece) => {
        said = (said + piece).slice(-4000)
      })
    }
    const [code, killedBy] = await new Promise((done) => {
      child.once('error', () => done([null, 'an error']))
      child.once('close', (...end) => done(end))
    })
    if (code !== 0) return `it ended with ${killedBy ?? code}: ${said.trim().split('\n').slice(-6).join(' | ')}`
    if (!proof.proves) return null
    const { testResults } = JSON.parse(readFileSync(report, 'utf8'))
    const passed = testResults.flatMap((file) => file.assertionResults).filter((test) => test.status === 'passed')
    return passed.some((test) => proof.proves.test(test.title)) ? null : 'nothing was proved: its test was skipped'
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

async function redriveFailed() {
  const keys = [...results.entries()].filter(([, row]) => !row.isOk && row.commit === commit).map(([key]) => key)
  if (keys.length > 0) await redriveLetters(rp, 'job/prove', keys)
}

/** Whose proof this is. What is not committed is said to be. */
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
