// The TypeScript of README and guides, as files: each block a module of its own, with the imports that its page implies and,
// for fragments, their assumed declarations.

import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { contexts } from './docs-context.ts'
import { root } from './support.ts'

export interface Snippet {
  /** 'README-2' */
  readonly name: string
  readonly page: string
  readonly text: string
  /** A complete program: it can be run unchanged. */
  readonly isWhole: boolean
}

const subpaths = [
  'job',
  'migrate',
  'workflow',
  'events',
  'table',
  'save',
  'resources',
  'pipeline',
  'agent',
  'testing',
  'langgraph',
  'server',
  'remote',
  'otel',
  'memo',
  'exec',
  'store',
  'model',
  'tools',
] as const

/** Every block of a page that is marked as TypeScript, also one that is indented under a list. */
export function snippetsOf(page: string, text: string): { readonly name: string; readonly text: string }[] {
  const blocks = [...text.matchAll(/^( *)```ts\n([\s\S]*?)^ *```$/gm)]
  return blocks.map(([, indent, body], i) => ({
    name: `${basename(page, '.md')}-${i + 1}`,
    text: body!.replaceAll(new RegExp(`^${indent}`, 'gm'), ''),
  }))
}

export async function readSnippets(): Promise<Snippet[]> {
  const exported = await exportedNames()
  const folders = [
    ...['guides', 'start', 'concepts', 'moving'].map((name) => `docs/${name}`),
    'skills/reprise/references',
  ]
  const guides = folders.flatMap((folder) => readdirSync(join(root, folder)).map((name) => `${folder}/${name}`))
  return ['README.md', ...guides.sort()].flatMap((page) =>
    snippetsOf(page, readFileSync(join(root, page), 'utf8')).map(({ name, text }) => {
      const given = contextOf(page, text)
      const imports = importsFor(page, text + given, exported)
      const hasGaps = /…(?!['"])/.test(text)
      // An ellipsis in code is a place for the reader's own code.
      const code = text.replaceAll(/…(?!['"])/g, '(undefined as any)')
      return {
        name,
        page,
        text: `${imports}${given}${code}\nexport {}\n`,
        isWhole: /from 'reprise/.test(text) && imports === '' && given === '' && !hasGaps,
      }
    }),
  )
}

/** The folder of a project that has Reprise installed and whose sources are these. */
export function writeProject(folder: string, snippets: readonly Snippet[]): void {
  mkdirSync(join(folder, 'src'), { recursive: true })
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'), 'dir')
  const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    exports: Record<string, { types?: string }>
  }
  const paths = Object.entries(exports).flatMap(([path, { types }]) =>
    types ? [[`reprise${path.slice(1)}`, [join(root, types)]]] : [],
  )
  const compilerOptions = {
    target: 'es2022',
    lib: ['es2023', 'esnext.disposable', 'dom'],
    module: 'nodenext',
    types: ['node'],
    strict: true,
    skipLibCheck: true,
    noEmitOnError: false,
    outDir: 'out',
    rootDir: 'src',
    paths: Object.fromEntries(paths) as Record<string, string[]>,
  }
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }')
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['src'] }))
  for (const { name, text } of snippets) writeFileSync(join(folder, 'src', `${name}.ts`), text)
}

/** The values of each subpath. The first subpath that has a value is used, that of the page itself before all. */
async function exportedNames(): Promise<Map<string, Set<string>>> {
  const names = new Map<string, Set<string>>()
  const { exports: entries } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    exports: Record<string, { default: string }>
  }
  for (const path of ['', ...subpaths]) {
    const file = entries[path === '' ? '.' : `./${path}`]!.default
    const module = (await import(pathToFileURL(join(root, file)).href)) as object
    names.set(path, new Set(Object.keys(module)))
  }
  return names
}

/** The declarations of the page that this block uses, directly or through others. */
function contextOf(page: string, text: string): string {
  const lines = contexts[page] ?? []
  const chosen = new Set<string>()
  for (let before = -1; before < chosen.size; ) {
    before = chosen.size
    const used = [text, ...chosen].join('\n')
    for (const line of lines) {
      const declared = /^(?:declare )?(?:const|function|type|interface) (\w+)/.exec(line)![1]!
      const isUsed = new RegExp(`(?<![.\\w'])${declared}\\b`).test(code(used))
      if (isUsed && !isDeclared(text, declared)) chosen.add(line)
    }
  }
  return lines
    .filter((line) => chosen.has(line))
    .map((line) => `${line}\n`)
    .join('')
}

function importsFor(page: string, text: string, exported: Map<string, Set<string>>): string {
  const own = pagePaths[basename(page, '.md')] ?? ''
  const order = [own, ...exported.keys()]
  const lines: string[] = []
  const seen = new Set<string>()
  for (const path of order) {
    for (const name of exported.get(path)!) {
      if (seen.has(name) || isDeclared(text, name)) continue
      if (!new RegExp(`(?<![.\\w'\`])${name}(?=[<(]|\\b(?! ?:|'))`).test(code(text))) continue
      seen.add(name)
      lines.push(`import { ${name} } from 'reprise${path === '' ? '' : `/${path}`}'\n`)
    }
  }
  if (/(?<![.\w])rp\b/.test(code(text)) && !isDeclared(text, 'rp')) {
    lines.push(`import type { Reprise } from 'reprise'\ndeclare const rp: Reprise\n`)
  }
  return lines.join('')
}

const pagePaths: Readonly<Record<string, string>> = {
  jobs: 'job',
  ingestion: 'job',
  'moving-a-script': 'job',
  nightly: 'job',
  migrations: 'migrate',
  workflows: 'workflow',
  sagas: 'workflow',
  versioning: 'workflow',
  events: 'events',
  tables: 'table',
  saves: 'save',
  memo: 'memo',
  agents: 'agent',
  testing: 'testing',
}

/** Without comments and texts. */
function code(text: string): string {
  return text.replace(/\/\/.*$/gm, '').replace(/'[^'\n]*'/g, "''")
}

function isDeclared(text: string, name: string): boolean {
  return (
    new RegExp(`(?:const|let|function|class|type|interface)\\s+${name}\\b`).test(text) ||
    new RegExp(`import[^;]*?\\{[^}]*\\b${name}\\b[^}]*\\}\\s*from`).test(text) ||
    new RegExp(`const\\s*[\\[{][^=]*\\b${name}\\b[^=]*[\\]}]\\s*=`).test(text)
  )
}
