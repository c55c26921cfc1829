// docs/errors.md is generated: this test is both its check and, with --update (npm run docs:errors), its writer.

import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { renderErrors } from '../scripts/errors-page.ts'
import { errorCodes, explain } from '../src/core/errors.ts'

const page = fileURLToPath(new URL('../docs/errors.md', import.meta.url))

it('docs/errors.md matches src/core/errors.ts (otherwise run `npm run docs:errors`)', async () => {
  await expect(renderErrors()).toMatchFileSnapshot(page)
})

it('the page has a section with the hint of every code', () => {
  const text = renderErrors()
  for (const code of errorCodes()) expect(text).toContain(`### ${code}\n\n${explain(code).hint}\n`)
})
