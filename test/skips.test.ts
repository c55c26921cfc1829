// A skipped test has a reason: where it cannot run (no strace, no browser, no broker), the file prints it.

import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'

const root = fileURLToPath(new URL('..', import.meta.url))
const files = ['src', 'test'].flatMap((folder) =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.test.ts') && name !== 'skips.test.ts')
    .map((name) => join(folder, name)),
)

/** The code that skips a test, and the code that prints the reason: in the file itself, or in its helper. */
const leavesOut = /\b(?:skipIf|runIf)\(|\bcontext\.skip\(\)/
const forGood = /\b(?:it|test|describe)\.(?:skip|todo|only|fails)\b|\b(?:xit|xdescribe)\(/
const tells = /console\.(?:log|warn)\(/
const helpers = /from '(\.{1,2}\/[^']*(?:support|parts)[^']*\.ts)'/g

function tellsWhy(file: string, text: string): boolean {
  const asked = [...text.matchAll(helpers)].map(([, path]) => readFileSync(join(root, dirname(file), path!), 'utf8'))
  return [text, ...asked].some((each) => tells.test(each))
}

it('no test is skipped for good, and none silently', () => {
  const text = new Map(files.map((file) => [file, readFileSync(join(root, file), 'utf8')]))
  expect(text.size).toBeGreaterThan(300)
  const matching = (pattern: RegExp) => [...text].filter(([, each]) => pattern.test(each)).map(([file]) => file)
  expect(matching(forGood)).toEqual([])
  expect(matching(leavesOut).length).toBeGreaterThan(3)
  expect(matching(leavesOut).filter((file) => !tellsWhy(file, text.get(file)!))).toEqual([])
})
