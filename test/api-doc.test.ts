// docs/api is generated from the declarations of the build: this test is both its check and, with --update
// (npm run docs:api), its writer.

import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { renderApi } from '../scripts/api-page.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const pages = renderApi(root)

it.each(pages.map(({ file }) => file))('docs/api/%s says what the types say (run `npm run docs:api`)', async (file) => {
  const page = pages.find((each) => each.file === file)!
  await expect(page.text).toMatchFileSnapshot(join(root, 'docs/api', file))
})

it('there is no page of an entry that is gone', () => {
  expect(readdirSync(join(root, 'docs/api')).sort()).toEqual(pages.map(({ file }) => file).sort())
})

it('every name that a built entry exports has its section', async () => {
  const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    exports: Record<string, { default?: string }>
  }
  for (const [path, entry] of Object.entries(exports)) {
    if (!entry.default) continue
    const { text } = pages.find((page) => page.entry === `reprise${path.slice(1)}`)!
    for (const name of Object.keys((await import(join(root, entry.default))) as object)) {
      expect(text, `${path} ${name}`).toContain(`\n## ${name}\n`)
    }
  }
})
