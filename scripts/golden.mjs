// npm run golden -- store-2: keeps a store with everything in it, as this version writes it (test/golden/record.test.ts).

import { spawnSync } from 'node:child_process'

const [name] = process.argv.slice(2)
if (!/^store-\d+$/.test(name ?? '')) {
  console.error('say under which name: npm run golden -- store-2')
  process.exit(2)
}
const env = { ...process.env, REPRISE_GOLDEN: name }
const run = spawnSync('npx', ['vitest', 'run', 'test/golden/record.test.ts'], { env, stdio: 'inherit' })
process.exitCode = run.status ?? 1
