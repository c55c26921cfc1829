// No import cycles, types included: a file can be read and tested with its imports alone.

import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { isTest, type Source } from '../scripts/architecture.ts'
import { findCircles } from '../scripts/circles.ts'

const root = fileURLToPath(new URL('..', import.meta.url))

const sources: Source[] = readdirSync(`${root}src`, { recursive: true, encoding: 'utf8' })
  .map((name) => `src/${name.replaceAll('\\', '/')}`)
  .filter((path) => path.endsWith('.ts') && !isTest(path))
  .map((path) => ({ path, text: readFileSync(root + path, 'utf8') }))

describe('files that import each other', () => {
  it('are not found anywhere', () => {
    expect(sources.length).toBeGreaterThan(400)
    expect(findCircles(sources)).toEqual([])
  })

  it('are found where they are: of types, across several files, and in two circles', () => {
    const sources = [
      { path: 'src/a.ts', text: "import type { B } from './b.ts'" },
      { path: 'src/b.ts', text: "export { C } from './in/c.ts'" },
      { path: 'src/in/c.ts', text: "import { a } from '../a.ts'\nimport { d } from './d.ts'" },
      { path: 'src/in/d.ts', text: "let e: import('./e.ts').E" },
      { path: 'src/in/e.ts', text: "import './d.ts'" },
      { path: 'src/f.ts', text: "import './a.ts'" },
    ]
    expect(findCircles(sources)).toEqual([
      ['src/in/d.ts', 'src/in/e.ts'],
      ['src/a.ts', 'src/b.ts', 'src/in/c.ts'],
    ])
  })
})
