// The examples of docs/api run, all in this process, and the pages show each of them. Those of the adapters run where their
// frameworks are loaded anyway (test/agent).

import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import type { Example } from '../examples/api/example.ts'
import { examplesIn } from '../scripts/api-page.ts'
import { runExamples } from './support/examples.ts'

const folder = fileURLToPath(new URL('../examples/api', import.meta.url))
const elsewhere = ['example.ts', 'ai-sdk.ts', 'langgraph.ts', 'openai-agents.ts']

for (const file of readdirSync(folder).filter((name) => !elsewhere.includes(name))) {
  const module = (await import(join(folder, file))) as { default: readonly Example[] }
  it(`${file}: the page shows every example that runs`, () => {
    const { shown } = examplesIn(readFileSync(join(folder, file), 'utf8'))
    expect(shown.length).toBeGreaterThan(0)
    expect(shown.map(({ shows }) => shows)).toEqual(module.default.map(({ shows }) => shows))
  })
  runExamples(`reprise/${file.replace('.ts', '')}`, module.default)
}
