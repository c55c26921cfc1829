// The shipped files in bundlers: webpack, and Next.js with it, treats `new URL('…', import.meta.url)` as a file that must
// exist, and fails otherwise.

import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { dirname, join, posix } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'

const root = fileURLToPath(new URL('..', import.meta.url))

it('every file that the shipped code names beside itself is in the package', () => {
  const packed = execFileSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], {
    cwd: root,
    encoding: 'utf8',
    maxBuffer: 2 ** 26,
  })
  const [{ files }] = JSON.parse(packed) as [{ files: { path: string }[] }]
  const shipped = new Set(files.map(({ path }) => path))
  const code = [...shipped].filter((path) => /^lib\/.*\.js$/.test(path))
  expect(code.length).toBeGreaterThan(20)
  const missing = code.flatMap((path) => {
    const named = readFileSync(join(root, path), 'utf8').matchAll(
      /new URL\(\s*(["'`])((?:(?!\1).)+)\1\s*,\s*import\.meta\.url/g,
    )
    return [...named].map(([, , name]) => posix.join(dirname(path), name!)).filter((name) => !shipped.has(name))
  })
  expect(missing).toEqual([])
})
