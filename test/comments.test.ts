// Comments can be read in one window, and cite nothing that is not here: a file that a comment names lies in the repository.

import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'

const root = fileURLToPath(new URL('..', import.meta.url))
const columnsMax = 130
/** Names of files that belong to the user, to a peer, or to an example. */
const elsewhere = new Set(['x.ts', 'bench/SUITE.mjs'])

const files = ['src', 'test', 'scripts', 'bench', 'examples', 'docs'].flatMap((folder) =>
  readdirSync(root + folder, { recursive: true, encoding: 'utf8' }).map(
    (name) => `${folder}/${name.replaceAll('\\', '/')}`,
  ),
)
files.push(...readdirSync(root))
/** Peers of benches may be installed in bench/versus. */
const isOurs = (path: string) => !path.includes('/node_modules/')
const sources = files
  .filter((path) => /^(src|test|scripts|bench|examples)\/.*\.(ts|cts|mts|mjs)$/.test(path))
  .filter(isOurs)

/** Lines that are comments and nothing else. */
function commentsIn(path: string): { readonly at: string; readonly text: string }[] {
  const lines = readFileSync(root + path, 'utf8').split('\n')
  return lines.flatMap((text, i) => (/^\s*(\/\/|\/\*|\*)/.test(text) ? [{ at: `${path}:${i + 1}`, text }] : []))
}

const comments = sources.flatMap(commentsIn)

describe('comments', () => {
  it('are found', () => {
    expect(comments.length).toBeGreaterThan(5000)
  })

  it(`have at most ${columnsMax} columns`, () => {
    expect(comments.filter(({ text }) => [...text].length > columnsMax).map(({ at }) => at)).toEqual([])
  })

  it('name only files that are here', () => {
    const isHere = (name: string) => files.some((path) => path === name || path.endsWith(`/${name}`))
    const named = comments.flatMap(({ at, text }) =>
      // An example is of the user's files.
      [...text.replace(/@example.*|'[^']*'|"[^"]*"/g, '').matchAll(/(?<![\w.])[\w./-]*\w\.(?:ts|md|mjs)\b/g)].map(
        ([name]) => ({
          at,
          name: name.replace(/^(\.\.?\/)+/, ''),
        }),
      ),
    )
    expect(named.length).toBeGreaterThan(200)
    expect(named.filter(({ name }) => !elsewhere.has(name) && !isHere(name))).toEqual([])
  })
})
