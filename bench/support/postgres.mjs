// The tests' PostgreSQL server for benches. The helper is TypeScript, which Node 20 does not run, so it is compiled into the
// cache folder of node_modules, from where it still finds the server's package.

import { spawnSync } from 'node:child_process'
import { fileURLToPath, pathToFileURL } from 'node:url'

export async function startServer() {
  const root = fileURLToPath(new URL('../..', import.meta.url))
  const cache = `${root}node_modules/.cache/reprise-bench`
  const compiler = `${root}node_modules/typescript/bin/tsc`
  const flags = [
    '--outDir',
    cache,
    '--rootDir',
    `${root}test/support`,
    '--module',
    'nodenext',
    '--target',
    'es2022',
    '--rewriteRelativeImportExtensions',
  ]
  const made = spawnSync(
    process.execPath,
    [compiler, `${root}test/support/postgres.ts`, ...flags, '--skipLibCheck', '--types', 'node', '--ignoreConfig'],
    {
      encoding: 'utf8',
    },
  )
  if (made.status !== 0) throw new Error(`cannot compile the test server: ${made.stdout}${made.stderr}`)
  const { startPostgres } = await import(pathToFileURL(`${cache}/postgres.js`).href)
  return await startPostgres()
}
