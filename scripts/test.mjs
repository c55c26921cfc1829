// Runs vitest with the given arguments and ends with one line of counts, `N passed, N failed`, taken from vitest's own JSON
// report. The exit code is that of vitest, and never 0 when the report is missing or empty.

import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'

const folder = mkdtempSync(join(tmpdir(), 'reprise-test-'))
const report = join(folder, 'report.json')
const vitest = join(dirname(createRequire(import.meta.url).resolve('vitest/package.json')), 'vitest.mjs')

const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${report}`]
const run = spawnSync(process.execPath, [vitest, 'run', ...reporters, ...process.argv.slice(2)], { stdio: 'inherit' })
const counts = count(report)
rmSync(folder, { recursive: true, force: true })

const isGreen = run.status === 0 && counts.failed === 0 && counts.passed > 0
// An error outside any test (an unhandled rejection, no report at all) must not hide behind "0 failed".
if (!isGreen && counts.failed === 0) {
  console.log(`vitest ended with ${run.signal ?? run.status} though no single test failed; see above`)
  counts.failed = 1
}
if (counts.skipped > 0) console.log(`${counts.skipped} skipped`)
console.log(`${counts.passed} passed, ${counts.failed} failed`)
process.exitCode = isGreen ? 0 : run.status || 1

/** A file that could not even be loaded has no failed test in it, and counts as one failure. */
function count(path) {
  try {
    const { numPassedTests, numPendingTests, numTodoTests, numFailedTests, testResults } = JSON.parse(
      readFileSync(path, 'utf8'),
    )
    const broken = testResults.filter(
      (file) => file.status === 'failed' && !file.assertionResults.some((test) => test.status === 'failed'),
    )
    return {
      passed: numPassedTests,
      failed: numFailedTests + broken.length,
      skipped: numPendingTests + numTodoTests,
    }
  } catch {
    return { passed: 0, failed: 0, skipped: 0 }
  }
}
