// The pages of the package: paths that they name exist, and tables stay legible. test/cli/package.test.ts follows their links.

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { posix } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'

const root = fileURLToPath(new URL('..', import.meta.url))
const pages = [
  ...readdirSync(`${root}docs`, { recursive: true, encoding: 'utf8' }).map(
    (path) => `docs/${path.replaceAll('\\', '/')}`,
  ),
  ...['README.md', 'ARCHITECTURE.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'SECURITY.md', 'bench/README.md'],
].filter((path) => path.endsWith('.md'))
const read = (page: string) => readFileSync(root + page, 'utf8')

/** The pages of the package, by `files` of package.json, where a leading ! excludes. npm always adds README.md. */
const { files } = JSON.parse(read('package.json')) as { readonly files: readonly string[] }
const covers = (entry: string, page: string) => page === entry || page.startsWith(`${entry}/`)
const isShipped = (page: string) =>
  page === 'README.md' ||
  (files.some((entry) => covers(entry, page)) &&
    !files.some((entry) => entry.startsWith('!') && covers(entry.slice(1), page)))

it('pages of the package name and link no file that only the repository has', () => {
  const shipped = pages.filter(isShipped)
  expect(shipped).toEqual(expect.arrayContaining(['README.md', 'docs/guarantees.md', 'docs/guides/jobs.md']))
  const inRepository =
    /(?<![\w/.])(?:src\/(?:core|engine|layers|stores|adapters|cli|server|operations|testing|lib)|test|scripts)\/[a-z][\w./-]*/g
  const named = shipped.flatMap((page) => [...read(page).matchAll(inRepository)].map(([path]) => `${page}: ${path}`))
  expect(named).toEqual([])
  const linked = shipped.flatMap((page) =>
    [...read(page).matchAll(/\]\(([^()\s#:]+)(?:#[^)]*)?\)/g)]
      .map(([, target]) => posix.normalize(posix.join(posix.dirname(page), target!)))
      .filter((target) => target.endsWith('.md') && !isShipped(target) && !target.startsWith('examples/'))
      .map((target) => `${page}: ${target}`),
  )
  expect(linked).toEqual([])
})

it('pages about the repository name only files that exist', () => {
  const missing = pages
    .filter((page) => !isShipped(page))
    .flatMap((page) =>
      [...read(page).matchAll(/`((?:src|test|scripts|bench|dashboard)\/[\w./-]+)`/g)].map(([, path]) => ({
        page,
        path: path!,
      })),
    )
    .filter(({ path }) => !existsSync(root + path) && !path.includes('/NAME/'))
  expect(missing).toEqual([])
})

it('cells of tables have at most 200 characters: a longer one becomes a section', () => {
  const long = pages.flatMap((page) =>
    read(page)
      .split('\n')
      .filter((line) => line.startsWith('|'))
      .flatMap((line) => line.split(/(?<!\\)\|/).filter((cell) => cell.trim().length > 200))
      .map((cell) => `${page}: ${cell.trim().slice(0, 60)}`),
  )
  expect(long).toEqual([])
})
