// The gate against slower code: the processor time of ten hot operations on this build, as a ratio to the build of a baseline
// commit. Both builds run in turns, each operation in a process of its own. A ratio above 1.15 fails the suite.
//   npm run build && npm run bench -- gate                     the baseline commit of bench/gate.json
//   REPRISE_GATE=COMMIT npm run bench -- gate                  another commit
// Run it before a change of the hot path lands, and store the table with --record.

import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { pair } from './measure.mjs'
import { hotOperations } from './support/hot-operations.mjs'

export const failsWhenMissed = true

const root = fileURLToPath(new URL('..', import.meta.url))
const operation = fileURLToPath(new URL('support/hot-operations.mjs', import.meta.url))

let baseline

/** The folder of the baseline's build. It is built once per commit, and kept beside other temporary files. */
function baselineRoot() {
  const named = process.env.REPRISE_GATE ?? JSON.parse(readFileSync(join(root, 'bench/gate.json'), 'utf8')).commit
  const git = (...args) => execFileSync('git', args, { cwd: root, maxBuffer: 1 << 30 })
  const commit = git('rev-parse', '--verify', `${named}^{commit}`).toString().trim()
  const folder = join(tmpdir(), `reprise-gate-${commit}`)
  if (existsSync(folder)) return folder
  const unfinished = `${folder}.${process.pid}`
  console.error(`building ${commit.slice(0, 8)} in ${folder}`)
  rmSync(unfinished, { recursive: true, force: true })
  mkdirSync(unfinished)
  writeFileSync(join(unfinished, 'tree.tar'), git('archive', '--format=tar', commit))
  const run = (file, ...args) => execFileSync(file, args, { cwd: unfinished, stdio: ['ignore', 2, 2] })
  run('tar', '-xf', 'tree.tar')
  const lock = 'package-lock.json'
  if (git('show', `${commit}:${lock}`).equals(readFileSync(join(root, lock))))
    symlinkSync(join(root, 'node_modules'), join(unfinished, 'node_modules'))
  else run('npm', 'ci', '--no-audit', '--no-fund')
  run('npm', 'run', 'build')
  renameSync(unfinished, folder)
  return folder
}

const cost = (folder, name) =>
  Number(execFileSync(process.execPath, [operation, folder, name], { stdio: ['ignore', 'pipe', 'inherit'] }))

export default Object.keys(hotOperations).map((name) => ({
  name,
  unit: 'µs of processor time',
  target: { ratioMax: 1.15 },
  setup() {
    baseline ??= baselineRoot()
  },
  run: pair({ value: () => cost(root, name), baseline: () => cost(baseline, name) }),
}))
