// The package as tests of the command line use it: what was built, in a few dozen files. A process that loads those starts in
// little more than half the time of one that loads hundreds, and the tests start well over a thousand. That the package works
// as it is shipped is for test/cli/package.test.ts.

import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../..', import.meta.url))
const bundles = join(root, '.built')
let made: string | null = null

/** Its folder, named after the build that it is made of. */
export function packageFolder(): string {
  made ??= make()
  return made
}

function make(): string {
  const dist = join(root, 'dist')
  const files = readdirSync(dist, { recursive: true, encoding: 'utf8' }).filter((name) => /\.c?js$/.test(name))
  const builtAt = Math.max(...[...files, '../package.json'].map((name) => statSync(join(dist, name)).mtimeMs))
  const name = `package-${Math.round(builtAt)}`
  const folder = join(bundles, name)
  if (existsSync(folder)) return folder
  if (existsSync(bundles)) {
    const older = readdirSync(bundles).filter((each) => each.startsWith('package-') && !each.startsWith(name))
    for (const each of older) rmSync(join(bundles, each), { recursive: true, force: true })
  }
  execFileSync(process.execPath, [join(root, 'test/support/bundle-package.mjs'), folder], { stdio: 'inherit' })
  return folder
}
