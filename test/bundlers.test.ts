// What bundlers make of the shipped files: webpack, and Next.js with it, takes `new URL('…', import.meta.url)` for a file that it
// must find, and fails where there is none.

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'

const lib = fileURLToPath(new URL('../lib', import.meta.url))

it('every file that the shipped code names beside itself is shipped', () => {
  const files = readdirSync(lib, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.js'))
  expect(files.length).toBeGreaterThan(20)
  const missing = files.flatMap((name) => {
    const named = readFileSync(join(lib, name), 'utf8').matchAll(
      /new URL\(\s*(["'`])((?:(?!\1).)+)\1\s*,\s*import\.meta\.url/g,
    )
    return [...named].map(([, , path]) => path!).filter((path) => !existsSync(join(lib, dirname(name), path)))
  })
  expect(missing).toEqual([])
})
