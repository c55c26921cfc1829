// The API tested against its own document by schemathesis, briefly: `npm run fuzz:api` tests more.

import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'

const script = fileURLToPath(new URL('../../scripts/fuzz-api.mjs', import.meta.url))
const run = (...args: string[]) => spawnSync(process.execPath, [script, ...args], { encoding: 'utf8' })
const isThere = run('--find').stdout.trim() !== ''
if (!isThere)
  console.log('skipped: the API is not fuzzed by schemathesis, which is not installed (see CONTRIBUTING.md)')

it.skipIf(!isThere)('answers the requests of schemathesis according to its document', () => {
  const { status, stdout, stderr } = run('--quick', '--examples', '1')
  expect([status, status === 0 ? '' : stdout.slice(-5000) + stderr]).toEqual([0, ''])
})
