// The pages of the site: the Markdown that the package ships, at the addresses that readers see, with its relative links led to
// these addresses. The files in docs/ stay as they are, so that their links also work on a forge and in the installed package.

import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, extname, join, posix } from 'node:path'
import { fileURLToPath } from 'node:url'

export const root = fileURLToPath(new URL('..', import.meta.url))

/** Pages that only the repository has, as `files` of package.json excludes them. */
const unshipped = /^docs\/(?:decisions\/|mutation\.md|proofs\.md)/
const besideDocs = ['CHANGELOG.md', 'SECURITY.md', 'bench/README.md']
const languages: Readonly<Record<string, string>> = {
  ...{ '.ts': 'ts', '.mjs': 'js', '.py': 'python', '.sh': 'sh', '.json': 'json', '.yaml': 'yaml', '.yml': 'yaml' },
  ...{ '.go': 'go', '.toml': 'toml', '.service': 'ini' },
}

export interface Page {
  /** Its path in the repository: 'docs/guides/jobs.md'. */
  readonly path: string
  /** Its path in the site: 'guides/jobs.md'. */
  readonly address: string
  readonly title: string
  readonly text: string
}

export const read = (path: string) => readFileSync(join(root, path), 'utf8')

/** Every Markdown file of the site. */
export function readPages(): Page[] {
  const docs = readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' })
    .map((path) => `docs/${path.replaceAll('\\', '/')}`)
    .filter((path) => path.endsWith('.md') && !unshipped.test(path))
  return [...docs.sort(), ...besideDocs].map((path) => {
    const text = read(path)
    return { path, address: addressOf(path), title: titleOf(path, text), text }
  })
}

/** The file in the site for a file of the repository. Sources become pages that show them. */
export function addressOf(path: string): string {
  if (path === 'README.md') return 'index.md'
  const inSite = path.replace(/^docs\/(?=.)/, '').replace(/(^|\/)README\.md$/, '$1index.md')
  if (path.endsWith('.md') || /\.(?:png|svg)$/.test(path)) return inSite
  return `files/${path.replaceAll('.', '-')}.md`
}

function titleOf(path: string, text: string): string {
  const [, title] = /^# (.*)$/m.exec(text) ?? []
  if (title === undefined) throw new Error(`${path} has no title`)
  return title.replaceAll('`', '')
}

/** The same text with each link outside of code replaced. */
export function replaceLinks(text: string, replace: (target: string) => string): string {
  const code = /^( *)```[\s\S]*?^ *```$|`[^`\n]*`/gm
  let from = 0
  const parts: string[] = []
  const prose = (part: string) => part.replaceAll(/\]\(([^()\s]+)\)/g, (_, target: string) => `](${replace(target)})`)
  // A link whose text has code in it is split by the code, and its target still stands in the part after it.
  for (const block of text.matchAll(code)) {
    parts.push(prose(text.slice(from, block.index)), block[0])
    from = block.index + block[0].length
  }
  return [...parts, prose(text.slice(from))].join('')
}

/** What a link of this page points to: a path of the repository, or null for an address with a scheme and for anchors. */
export function targetOf(page: string, link: string): { readonly path: string; readonly anchor: string } | null {
  if (/^[a-z]+:/.test(link) || link.startsWith('#')) return null
  const [target = '', anchor = ''] = link.split('#')
  const joined = posix.normalize(posix.join(posix.dirname(page), target)).replace(/\/$/, '')
  const full = join(root, joined)
  const isFolder = existsSync(full) && statSync(full).isDirectory()
  return { path: isFolder && existsSync(join(full, 'README.md')) ? `${joined}/README.md` : joined, anchor }
}

function staged(page: string, text: string, linked: Set<string>): string {
  const here = posix.dirname(addressOf(page))
  return replaceLinks(text, (link) => {
    const target = targetOf(page, link)
    if (target === null) return link
    linked.add(target.path)
    const relative = posix.relative(here, addressOf(target.path))
    return `${relative.startsWith('.') ? '' : './'}${relative}${target.anchor && `#${target.anchor}`}`
  })
}

/** Writes the pages, and the sources that they link. */
export function stage(folder: string): Page[] {
  rmSync(folder, { recursive: true, force: true })
  const pages = readPages()
  const linked = new Set<string>()
  for (const page of pages) write(folder, page.address, staged(page.path, page.text, linked))
  write(folder, 'index.md', staged('README.md', readFileSync(join(root, 'site/landing.md'), 'utf8'), linked))
  for (const name of ['images', 'terminal']) cpSync(join(root, 'docs', name), join(folder, name), { recursive: true })
  const known = new Set(pages.map(({ path }) => path))
  for (const path of [...linked].filter((each) => !known.has(each) && each !== 'README.md')) stageSource(folder, path)
  return pages
}

/** Writes one page again, after a change of its file. */
export function stageAgain(folder: string, path: string): void {
  write(folder, addressOf(path), staged(path, read(path), new Set()))
}

/** A page that shows a source file, or the files of a folder with a page each. */
function stageSource(folder: string, path: string): void {
  const full = join(root, path)
  if (/\.(?:png|svg)$/.test(path) || unshipped.test(path) || !existsSync(full)) return
  if (path.endsWith('.md')) {
    stageAgain(folder, path)
    return
  }
  if (!statSync(full).isDirectory()) {
    const language = languages[extname(path)] ?? 'text'
    write(folder, addressOf(path), `# ${path}\n\n\`\`\`\`${language}\n${readFileSync(full, 'utf8')}\n\`\`\`\`\n`)
    return
  }
  const names = readdirSync(full, { recursive: true, encoding: 'utf8' })
    .map((name) => `${path}/${name.replaceAll('\\', '/')}`)
    .filter((name) => !/node_modules|\.(?:png|svg)$/.test(name) && statSync(join(root, name)).isFile())
  for (const name of names) stageSource(folder, name)
  const lines = names.map((name) => {
    const relative = posix.relative(posix.dirname(addressOf(path)), addressOf(name))
    return `- [${name.slice(path.length + 1)}](./${relative})`
  })
  write(folder, addressOf(path), `# ${path}\n\n${lines.join('\n')}\n`)
}

function write(folder: string, address: string, text: string): void {
  const file = join(folder, address)
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, text)
}

/** As forges make anchors of headings. */
export function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replaceAll(/[^\w\s-]/g, '')
    .trim()
    .replaceAll(/\s/g, '-')
}
