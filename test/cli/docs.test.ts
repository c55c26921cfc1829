// Code in the docs is code: every TypeScript block of README and guides is type-checked against the package as it is
// built, and those that are whole programs are run. Every guide is listed where people look for it.

import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { beforeAll, expect, it } from 'vitest'
import { temporaryFolder } from '../support/fixture.ts'
import { readSnippets, snippetsOf, writeProject } from './docs.ts'
import { root, workFolder } from './support.ts'

const folder = temporaryFolder('docs')
const snippets = await readSnippets()
let problems = new Map<string, string[]>()

beforeAll(() => {
  writeProject(folder, snippets)
  problems = check(folder)
})

/** The messages of the compiler, by file. */
function check(project: string): Map<string, string[]> {
  const require = createRequire(import.meta.url)
  const tsc = join(dirname(require.resolve('typescript/package.json')), 'bin/tsc')
  const ran = spawnSync(process.execPath, [existsSync(tsc) ? tsc : `${tsc}.js`, '-p', '.', '--pretty', 'false'], {
    cwd: project,
    encoding: 'utf8',
  })
  const found = new Map<string, string[]>()
  for (const line of ran.stdout.split('\n')) {
    const match = /^src\/(.*)\.ts\((\d+),\d+\): (.*)$/.exec(line)
    if (match) found.set(match[1]!, [...(found.get(match[1]!) ?? []), `line ${match[2]}: ${match[3]}`])
    // Indented lines continue the line before.
    else if (/^\S.*error/.test(line)) throw new Error(line)
  }
  return found
}

it('finds the blocks of every page', () => {
  expect(snippets.length).toBeGreaterThan(25)
  expect(snippetsOf('x.md', '1. a\n\n   ```ts\n   const a = 1\n   ```\n').map(({ text }) => text)).toEqual([
    'const a = 1\n',
  ])
})

it.each(snippets.map(({ page, name }) => [page, name] as const))(
  'E9: %s: block %s has the right types',
  (page, name) => {
    const { text } = snippets.find((snippet) => snippet.name === name)!
    expect(problems.get(name) ?? [], `${page}\n${text}`).toEqual([])
  },
)

it.each([
  ['README.md', 'docs/'],
  ['docs/guides/README.md', '../'],
])('%s lists every guide and comparison', (page, docs) => {
  const text = readFileSync(join(root, page), 'utf8')
  const guides = readdirSync(join(root, 'docs/guides')).filter((name) => name !== 'README.md')
  const compared = readdirSync(join(root, 'docs')).filter((name) => name.startsWith('comparison'))
  const links = [
    ...guides.map((name) => (page === 'README.md' ? `docs/guides/${name}` : name)),
    ...compared.map((name) => `${docs}${name}`),
  ]
  expect(links.length).toBeGreaterThan(25)
  expect(links.filter((link) => !text.includes(`](${link})`))).toEqual([])
})

it('each block has a name of its own', () => {
  const names = snippets.map(({ name }) => name)
  expect(names.filter((name, i) => names.indexOf(name) !== i)).toEqual([])
})

it('the ways over and the skill have whole programs, which run', () => {
  const pages = ['docs/moving/from-', 'skills/reprise/references/'].flatMap((start) =>
    snippets.filter(({ page }) => page.startsWith(start)),
  )
  expect(pages.length).toBeGreaterThan(9)
  expect(pages.filter(({ isWhole }) => !isWhole).map(({ name }) => name)).toEqual([])
})

it('would find a call that does not exist', () => {
  const broken = join(folder, 'broken')
  const text = "import { job } from 'reprise/job'\njob('x', { source: [1], eachOne: () => 1 })\nexport {}\n"
  mkdirSync(broken)
  writeProject(broken, [{ name: 'broken', page: 'none', text, isWhole: true }])
  expect(check(broken).get('broken')![0]).toContain('eachOne')
})

const whole = snippets.filter((snippet) => snippet.isWhole)

it('some are whole programs', () => {
  expect(whole.map((snippet) => snippet.name)).toContain('jobs-1')
})

it.each(whole.map(({ name }) => name))('E9: block %s runs as it stands', (name) => {
  const place = workFolder()
  try {
    const { text } = snippets.find((snippet) => snippet.name === name)!
    writeFileSync(join(place.path, 'package.json'), '{ "type": "module" }')
    symlinkSync(join(folder, 'out', `${name}.js`), join(place.path, 'linked.js'))
    if (/from '(?!reprise|node:)/.test(text)) linkPackages(place.path)
    const ran = spawnSync(process.execPath, ['--preserve-symlinks-main', '--preserve-symlinks', 'linked.js'], {
      cwd: place.path,
      encoding: 'utf8',
      timeout: 120_000,
    })
    expect([ran.status, ran.stderr.replaceAll(/^\S+: .*\n/gm, '')], text).toEqual([0, ''])
  } finally {
    place.remove()
  }
})

/** The packages of the repository, for programs that import others than this one. */
function linkPackages(place: string): void {
  const names = readdirSync(join(root, 'node_modules')).filter((name) => !/^\.|^reprise$/.test(name))
  for (const name of names) symlinkSync(join(root, 'node_modules', name), join(place, 'node_modules', name), 'dir')
}
