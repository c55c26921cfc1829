// Renders docs/api from the declarations that the compiler wrote: one page for each entry of the package, with every
// exported name, what its comment says, and its declaration. `npm run docs:api` writes them; test/api-doc.test.ts fails
// when one is stale. It relies on how tsc lays out declarations: a statement begins at the start of a line.

import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

export interface ApiPage {
  /** 'reprise/job' */
  readonly entry: string
  /** 'job.md', below docs/api. */
  readonly file: string
  readonly text: string
}

interface Declaration {
  readonly name: string
  readonly kind: 'function' | 'value' | 'class' | 'type'
  /** The comments before its statements, and the statements (overloads are several). */
  readonly comments: string[]
  readonly statements: string[]
}

/** Pages for each entry in `exports` that has types, and the one that lists them. */
export function renderApi(root: string): ApiPage[] {
  const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    exports: Record<string, { types?: string }>
  }
  const entries = Object.entries(exports).flatMap(([path, { types }]) => (types ? [{ path, types }] : []))
  const pages = entries.map(({ path, types }) => {
    const entry = `reprise${path.slice(1)}`
    const declarations = [...exportsOf(join(root, types)).values()].sort(byKindAndName)
    const file = `${path === '.' ? 'reprise' : path.slice(2)}.md`
    return { entry, file, declarations, text: pageOf(entry, declarations) }
  })
  const lines = pages.map(({ entry, file, declarations }) => {
    const names = declarations.filter(({ kind }) => kind !== 'type').map(({ name }) => `\`${name}\``)
    return `- [${entry}](${file}): ${names.join(', ') || 'types only'}`
  })
  const text = `${notice}# API\n\nEvery public name, from the types of the package itself. How things fit together is in the [guides](../guides); every error code is in\n[errors.md](../errors.md).\n\n${lines.join('\n')}\n`
  return [{ entry: 'all', file: 'README.md', text }, ...pages.map(({ entry, file, text }) => ({ entry, file, text }))]
}

const notice = '<!-- Generated from the declarations by `npm run docs:api`. Do not edit by hand. -->\n\n'
const order = ['function', 'value', 'class', 'type'] as const

function byKindAndName(a: Declaration, b: Declaration): number {
  return order.indexOf(a.kind) - order.indexOf(b.kind) || (a.name < b.name ? -1 : 1)
}

function pageOf(entry: string, declarations: readonly Declaration[]): string {
  const names = declarations.map(({ name }) => `[${name}](#${name.toLowerCase()})`).join(', ')
  return `${notice}# ${entry}\n\n${names}\n\n${declarations.map(sectionOf).join('\n')}`
}

function sectionOf({ name, comments, statements }: Declaration): string {
  const { text, examples } = readComment(comments.join('\n'))
  const parts = [`## ${name}`]
  if (text !== '') parts.push(text)
  parts.push(fence(statements.map(clean).join('\n')), ...examples.map(fence))
  return `${parts.join('\n\n')}\n`
}

function fence(code: string): string {
  return `\`\`\`ts\n${code}\n\`\`\``
}

function clean(statement: string): string {
  const lines = statement.replace(/^export (declare )?/, '').split('\n')
  return lines.filter((line) => !/^\s*(#private;|private )/.test(line)).join('\n')
}

function readComment(comment: string): { readonly text: string; readonly examples: string[] } {
  const plain = comment.replace(/^\/\*\*\s?|\s*\*\/$/gm, '').replace(/^\s*\* ?/gm, '')
  const [text = '', ...examples] = plain.split(/@example\s/)
  return { text: text.trim(), examples: examples.map((example) => example.trim()) }
}

/** What a module exports, by name, with what it passes on from others. */
function exportsOf(file: string): Map<string, Declaration> {
  const found = new Map<string, Declaration>()
  const own = new Map<string, Declaration>()
  const named: { readonly local: string; readonly name: string; readonly from: string | null }[] = []
  let comment: string | null = null
  for (const statement of statementsOf(readFileSync(file, 'utf8'))) {
    if (statement.startsWith('/**')) {
      comment = statement
      continue
    }
    const passed = /^export (?:type )?\{([\s\S]*)\}(?: from '(.*)')?;$/.exec(statement)
    const all = /^export \* from '(.*)';$/.exec(statement)
    if (all) for (const [name, each] of exportsOf(moduleAt(file, all[1]!))) found.set(name, each)
    else if (passed) {
      for (const item of passed[1]!.split(',').filter((each) => each.trim() !== '')) {
        const [local, name = local] = item
          .trim()
          .replace(/^type /, '')
          .split(' as ')
        named.push({ local: local!, name: name!, from: passed[2] ?? null })
      }
    } else {
      const declared = /^(export )?(?:declare )?(?:abstract )?(function|const|let|class|interface|type) (\w+)/.exec(
        statement,
      )
      if (declared) add(declared[3]!, declared[2]!, statement, comment, declared[1] !== undefined)
    }
    comment = null
  }
  for (const { local, name, from } of named) {
    const each = from === null ? own.get(local) : exportsOf(moduleAt(file, from)).get(local)
    if (!each) throw new Error(`${file} exports ${name}, and ${from ?? 'it'} does not have ${local}`)
    found.set(name, { ...each, name })
  }
  return found

  function add(name: string, word: string, statement: string, before: string | null, isExported: boolean): void {
    const kind = word === 'function' || word === 'class' ? word : word === 'const' || word === 'let' ? 'value' : 'type'
    // A value and a type may share a name; both are shown.
    const known = own.get(name)
    const comments = [...(known?.comments ?? []), ...(before === null ? [] : [before])]
    const next = { name, kind: known?.kind ?? kind, comments, statements: [...(known?.statements ?? []), statement] }
    own.set(name, next as Declaration)
    if (isExported) found.set(name, next as Declaration)
  }
}

function moduleAt(file: string, specifier: string): string {
  return join(dirname(file), specifier.replace(/\.[jt]s$/, '.d.ts'))
}

/** Statements and comments at the top level, in order. Lines that go on are indented or begin with what closes. */
function statementsOf(text: string): string[] {
  const statements: string[] = []
  for (const line of text.split('\n')) {
    if (line === '') continue
    const isNew = /^[a-z/]/.test(line)
    if (isNew || statements.length === 0) statements.push(line)
    else statements[statements.length - 1] += `\n${line}`
  }
  return statements
}
