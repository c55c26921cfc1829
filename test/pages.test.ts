// The pages of the package: paths that they name exist, and tables stay legible. test/cli/package.test.ts follows their links.

import { existsSync, readdirSync, readFileSync } from 'node:fs'
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

/** Pages about the repository; the others are for users, who have only the package. */
const ofRepository =
  /^docs\/decisions\/|^docs\/(guarantees|mutation)\.md$|^(ARCHITECTURE|CHANGELOG|CONTRIBUTING)\.md$|^bench\//

it('pages for users name no file that only the repository has', () => {
  const named = pages
    .filter((page) => !ofRepository.test(page))
    .flatMap((page) =>
      [
        ...read(page).matchAll(
          /(?<![\w/.])(?:src\/(?:core|engine|layers|stores|adapters|cli|server|operations|testing|lib)|test|scripts)\/[a-z][\w./-]*/g,
        ),
      ].map(([path]) => `${page}: ${path}`),
    )
  // The one on errors names its generator, in a comment.
  expect(named).toEqual(['docs/errors.md: src/core/errors.ts'])
})

it('pages about the repository name only files that exist', () => {
  const missing = pages
    .filter((page) => ofRepository.test(page) && page !== 'CHANGELOG.md')
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
