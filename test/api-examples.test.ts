// Every public verb has an example in examples/api (or in a guide, whose code is compiled as well: test/cli/docs.test.ts).
// The compiler sees the examples as part of the project; here they run, all in this process. Those of the adapters run where
// their frameworks are loaded anyway (test/agent).

import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import type { Example } from '../examples/api/example.ts'
import { examplesIn, publicVerbs } from '../scripts/api-page.ts'
import { snippetsOf } from './cli/docs.ts'
import { runExamples } from './support/examples.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const verbs = publicVerbs(root)
const entries = [...verbs.keys()]
const adapters = ['reprise/ai-sdk', 'reprise/langgraph', 'reprise/openai-agents']
const guides: Readonly<Record<string, readonly string[]>> = {
  'reprise/pipeline': ['pipelines'],
  'reprise/server': ['server'],
}

function fileOf(entry: string): string {
  return `examples/api/${entry.replace(/^reprise\//, '')}.ts`
}

it('there are examples for every entry of the package, and for nothing else', () => {
  const files = readdirSync(join(root, 'examples/api')).filter((name) => name !== 'example.ts')
  expect(files.map((name) => `examples/api/${name}`).sort()).toEqual(entries.map(fileOf).sort())
})

it.each(entries)('%s: every function, class and method has an example', (entry) => {
  const { shown } = examplesIn(readFileSync(join(root, fileOf(entry)), 'utf8'))
  const names = new Set(shown.flatMap(({ shows }) => shows))
  const guided = (guides[entry] ?? []).map((page) => readFileSync(join(root, `docs/guides/${page}.md`), 'utf8'))
  const code = guided.flatMap((text) => snippetsOf('guide.md', text).map((snippet) => snippet.text)).join('\n')
  const isCalled = (verb: string) => new RegExp(`\\b${verb.split('.').at(-1)}\\b\\s*[<(]`).test(code)
  const without = verbs.get(entry)!.filter((verb) => !names.has(verb) && !isCalled(verb))
  expect(without, `give each an example in ${fileOf(entry)}`).toEqual([])
})

it.each(entries)('%s: examples show what they say they show', (entry) => {
  const { common, shown } = examplesIn(readFileSync(join(root, fileOf(entry)), 'utf8'))
  expect(shown.length).toBeGreaterThan(0)
  for (const { shows, code } of shown) {
    expect(shows.filter((verb) => !verbs.get(entry)!.includes(verb))).toEqual([])
    const text = `${common}\n${code}`
    expect(shows.filter((verb) => !new RegExp(`\\b${verb.split('.').at(-1)}\\b`).test(text))).toEqual([])
  }
})

for (const entry of entries.filter((each) => !adapters.includes(each))) {
  const module = (await import(`../${fileOf(entry)}`)) as { default: readonly Example[] }
  it(`${entry}: the page shows every example that runs`, () => {
    const { shown } = examplesIn(readFileSync(join(root, fileOf(entry)), 'utf8'))
    expect(shown.map(({ shows }) => shows)).toEqual(module.default.map(({ shows }) => shows))
  })
  runExamples(entry, module.default)
}
