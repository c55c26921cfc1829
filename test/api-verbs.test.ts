// Every public verb has an example in examples/api (or in a guide, whose code is compiled as well: test/cli/docs.test.ts).
// The compiler sees the examples as part of the project, and test/api-examples.test.ts runs them.

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { examplesIn, publicVerbs } from '../scripts/api-page.ts'
import { snippetsOf } from './cli/docs.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const verbs = publicVerbs(root)
const entries = [...verbs.keys()]

/** The code of the guides, which a test compiles and, where it is whole, runs. */
const guided = readdirSync(join(root, 'docs/guides'))
  .flatMap((page) => snippetsOf(page, readFileSync(join(root, 'docs/guides', page), 'utf8')))
  .map(({ text }) => text)
  .join('\n')

function fileOf(entry: string): string {
  return `examples/api/${entry.replace(/^reprise\//, '')}.ts`
}

function sourceOf(entry: string): string {
  return existsSync(join(root, fileOf(entry))) ? readFileSync(join(root, fileOf(entry)), 'utf8') : ''
}

it('there is no file of examples for an entry that is gone', () => {
  const files = readdirSync(join(root, 'examples/api')).filter((name) => name !== 'example.ts')
  const known = entries.map(fileOf)
  expect(files.map((name) => `examples/api/${name}`).filter((name) => !known.includes(name))).toEqual([])
})

it.each(entries)('%s: every function, class and method has an example', (entry) => {
  const names = new Set(examplesIn(sourceOf(entry)).shown.flatMap(({ shows }) => shows))
  const isCalled = (verb: string) => new RegExp(`\\b${verb.split('.').at(-1)}\\b\\s*[<(]`).test(guided)
  const without = verbs.get(entry)!.filter((verb) => !names.has(verb) && !isCalled(verb))
  expect(without, `give each an example in ${fileOf(entry)}`).toEqual([])
})

it.each(entries)('%s: examples show the announced behaviour', (entry) => {
  const { common, shown } = examplesIn(sourceOf(entry))
  for (const { shows, code } of shown) {
    expect(shows.filter((verb) => !verbs.get(entry)!.includes(verb))).toEqual([])
    const text = `${common}\n${code}`
    expect(shows.filter((verb) => !new RegExp(`\\b${verb.split('.').at(-1)}\\b`).test(text))).toEqual([])
  }
})
