// npm run mutate -- [FILE…] [--per-file N] [--from N] [--json FILE]: plants small bugs one at a time in copies of the core, and
// runs the tests beside each file against them. A mutant that no test notices survives, and is printed with its place: either a
// test is missing, or the change makes no difference, and docs/mutation.md explains why.

import { spawn } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { mutantsOf } from './mutants.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))
const conformance = ['src/stores/memory/memory.test.ts', 'src/testing/conformance/suite.test.ts']
/** The mutated files, and the tests that must notice. */
const targets = {
  'src/core/history/scope.ts': ['src/core/history/scope.test.ts'],
  'src/core/history/order-of-facts.ts': ['src/core/history/order-of-facts.test.ts'],
  'src/core/checkpoint/retention.ts': ['src/core/checkpoint/retention.test.ts'],
  'src/core/history/recovery.ts': ['src/core/history/recovery.test.ts'],
  'src/core/history/recovery-line.ts': ['src/core/history/recovery-line.test.ts'],
  'src/core/history/group-mail.ts': ['src/core/history/group-mail.test.ts'],
  'src/core/history/effects.ts': ['src/core/history/effects.test.ts'],
  'src/core/history/entry-run.ts': ['src/core/history/entry-run.test.ts'],
  'src/core/checkpoint/manifest.ts': ['src/core/checkpoint/manifest.test.ts'],
  'src/core/checkpoint/parity.ts': ['src/core/checkpoint/parity.test.ts'],
  'src/core/history/bisect.ts': ['src/core/history/bisect.test.ts'],
  'src/core/history/validity.ts': ['src/core/history/validity.test.ts'],
  'src/core/checkpoint/failures.ts': ['src/core/checkpoint/failures.test.ts'],
  'src/core/checkpoint/checkpoint-policy.ts': ['src/core/checkpoint/checkpoint-policy.test.ts'],
  'src/core/commit/decide.ts': conformance,
  'src/core/commit/catalog.ts': conformance,
  'src/core/commit/lineage.ts': conformance,
  'src/core/commit/mail.ts': conformance,
}
/** A mutant with an endless loop must not stop the rest. */
const timeoutMs = 60_000

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    'per-file': { type: 'string', default: '1000000' },
    from: { type: 'string', default: '0' },
    json: { type: 'string' },
  },
})
const wanted = positionals.length > 0 ? positionals : Object.keys(targets)
const unknown = wanted.find((file) => !targets[file])
if (unknown) {
  console.error(`${unknown} is none of ${Object.keys(targets).join(', ')}`)
  process.exit(2)
}

const copy = mkdtempSync(join(tmpdir(), 'reprise-mutants-'))
process.on('exit', () => rmSync(copy, { recursive: true, force: true }))
for (const folder of ['src', 'test']) cpSync(join(root, folder), join(copy, folder), { recursive: true })
for (const file of ['package.json', 'tsconfig.json']) cpSync(join(root, file), join(copy, file))
symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'))
// The first failure is enough, and no server is needed.
writeFileSync(
  join(copy, 'vitest.config.mjs'),
  `export default { test: { include: ['src/**/*.test.ts'], pool: 'forks', maxWorkers: 1, bail: 1, testTimeout: 30000 } }\n`,
)

const reports = []
for (const file of wanted) {
  const path = join(copy, file)
  const source = readFileSync(path, 'utf8')
  const all = mutantsOf(source)
  const chosen = spread(all, Number(values['per-file'])).slice(Number(values.from))
  if ((await passes(targets[file])) !== 'passed') throw new Error(`the tests of ${file} fail without a mutant`)
  const survivors = []
  let killed = 0
  for (const mutant of chosen) {
    writeFileSync(path, mutant.text)
    if ((await passes(targets[file])) === 'passed') {
      survivors.push({ file, line: mutant.line, what: mutant.what, was: mutant.was, now: mutant.now })
      console.log(`survived  ${file}:${mutant.line}  ${mutant.what}: ${mutant.was} → ${mutant.now}`)
    } else killed += 1
  }
  writeFileSync(path, source)
  reports.push({ file, mutants: all.length, tried: chosen.length, killed, survivors })
  console.log(`${file}: ${killed} of ${chosen.length} mutants killed (${all.length} in all)`)
  if (values.json) writeFileSync(values.json, JSON.stringify(reports, null, 1))
}
const [tried, killed] = ['tried', 'killed'].map((name) => reports.reduce((sum, report) => sum + report[name], 0))
console.log(`${killed} of ${tried} mutants killed: ${((100 * killed) / Math.max(1, tried)).toFixed(1)} %`)

/** Evenly spread over the file, so that a part of them is a fair sample. */
function spread(all, most) {
  if (all.length <= most) return all
  return Array.from({ length: most }, (_, i) => all[Math.floor((i * all.length) / most)])
}

async function passes(tests) {
  const vitest = join(root, 'node_modules/vitest/vitest.mjs')
  const child = spawn(process.execPath, [vitest, 'run', ...tests], {
    cwd: copy,
    stdio: 'ignore',
    detached: true,
    env: { ...process.env, CI: '1' },
  })
  const timer = setTimeout(() => process.kill(-child.pid, 'SIGKILL'), timeoutMs)
  const code = await new Promise((resolve) => child.once('close', (ended) => resolve(ended)))
  clearTimeout(timer)
  return code === 0 ? 'passed' : 'failed'
}
