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

it('paragraphs and items of lists have at most five lines of 130 characters, without the addresses of links', () => {
  const lengthOf = (text: string) =>
    text
      .replaceAll(/\]\([^)]*\)/g, ']')
      .replaceAll(/\s+/g, ' ')
      .trim().length
  const guides = pages.filter((page) => /^docs\/(?:guides|moving|concepts|start|comparison)/.test(page))
  expect(guides.length).toBeGreaterThan(60)
  const long = guides.flatMap((page) =>
    paragraphsOf(read(page))
      .filter((text) => lengthOf(text) > 5 * 130)
      .map((text) => `${page}: ${lengthOf(text)} characters: ${text.slice(0, 60)}`),
  )
  expect(long).toEqual([])
  expect(paragraphsOf('# A\n\none\ntwo\n- three\n- four\n\n| a |\n\n    code\n')).toEqual([
    'one\ntwo',
    '- three',
    '- four',
  ])
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

/** Paragraphs and items of lists, without code, tables and headings. */
function paragraphsOf(text: string): string[] {
  return text
    .replaceAll(/^( *)```[\s\S]*?^ *```$/gm, '')
    .split(/\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )/)
    .map((block) => block.replace(/^\n+|\s+$/g, ''))
    .filter((block) => block !== '' && !/^(?:\||#|<| {4})/.test(block))
}
