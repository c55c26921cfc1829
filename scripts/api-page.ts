// Renders docs/api from the declarations that the compiler wrote: one page for each entry of the package, with every exported
// name, its comment, its declaration, and the examples that use it (examples/api). `npm run docs:api` writes them;
// test/api-doc.test.ts fails when one is outdated. It relies on the layout of tsc's declarations: a statement begins at the
// start of a line.

import { existsSync, readFileSync } from 'node:fs'
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
  /** Exported as a type only: `new` is not possible. */
  readonly isType?: boolean
  /** The comments before its statements, and the statements (overloads are several). */
  readonly comments: string[]
  readonly statements: string[]
}

/**
 * The callable names of each entry: functions, values and classes, and the methods of classes and of arguments that callbacks
 * receive.
 */
export function publicVerbs(root: string): Map<string, string[]> {
  return new Map(entriesOf(root).map(({ entry, declarations }) => [entry, declarations.flatMap(verbsOf)]))
}

/** Pages for each entry in `exports` that has types, and the page that lists them. */
export function renderApi(root: string): ApiPage[] {
  const pages = entriesOf(root).map(({ entry, name, declarations }) => {
    const file = join(root, `examples/api/${name}.ts`)
    const source = existsSync(file) ? readFileSync(file, 'utf8') : ''
    return { entry, file: `${name}.md`, declarations, text: pageOf(entry, declarations, source) }
  })
  const lines = pages.map(({ entry, file, declarations }) => {
    const names = declarations.filter(({ kind }) => kind !== 'type').map(({ name }) => `\`${name}\``)
    return `- [${entry}](${file}): ${names.join(', ') || 'types only'}`
  })
  const text = `${notice}# API\n\nEvery public name, from the types of the package itself. How things fit together is in the [guides](../guides); every error code is in\n[errors.md](../errors.md).\n\n${lines.join('\n')}\n`
  return [{ entry: 'all', file: 'README.md', text }, ...pages.map(({ entry, file, text }) => ({ entry, file, text }))]
}

function entriesOf(root: string) {
  const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    exports: Record<string, { types?: string }>
  }
  return Object.entries(exports).flatMap(([path, { types }]) => {
    if (!types) return []
    const declarations = [...exportsOf(join(root, types)).values()].sort(byKindAndName)
    return [{ entry: `reprise${path.slice(1)}`, name: path === '.' ? 'reprise' : path.slice(2), declarations }]
  })
}

/**
 * Interfaces whose values the engine passes to user code. Users implement all other interfaces: a store, a sink, a clock.
 */
const handed = /(Context|Call|Transaction|ValueState|ListState|MapState|ReducingState|Given|When|Server|Sql)$/

function verbsOf({ name, kind, isType, statements }: Declaration): string[] {
  if (kind === 'function' || kind === 'value') return [name]
  if (kind === 'type' && !handed.test(name)) return []
  const methods = statements.flatMap((statement) =>
    [...clean(statement).matchAll(/^ {4}(?!get |set |static |constructor\b)(\w+)(?:<[^(\n]*>)?\(/gm)].map(
      ([, method]) => method!,
    ),
  )
  const own = [...new Set(methods)].map((method) => `${name}.${method}`)
  return kind === 'class' && own.length === 0 && !isType ? [name] : own
}

interface Shown {
  readonly shows: readonly string[]
  readonly code: string
}

/** A file of examples: their common start, and the body of each as it is written there. */
export function examplesIn(source: string): { readonly common: string; readonly shown: readonly Shown[] } {
  const [before = '', list = ''] = source.split('\nexport default [\n')
  const common = before
    .replace(/^\/\/.*\n+/gm, '')
    .replace(/^import[\s\S]*?from '.*'\n*/gm, '')
    .trim()
  const shown = [...list.matchAll(/^ {2}example\([\s\S]*?^ {2}(?:\}\)|\)),$/gm)].map(([text]) => {
    const [, names = '', body = ''] = /\[([\s\S]*?)\n? *\],\s*async \([^)]*\) => \{\n([\s\S]*)$/.exec(text) ?? []
    const code = body.replace(/^ {2}\}\),$|^ {4}\},\n[\s\S]*$/m, '')
    const indent = /^ */.exec(code)![0]
    return {
      shows: [...names.matchAll(/'([^']+)'/g)].map(([, name]) => name!),
      code: code.replaceAll(new RegExp(`^${indent}`, 'gm'), '').trim(),
    }
  })
  return { common, shown }
}

const notice = '<!-- Generated from the declarations by `npm run docs:api`. Do not edit by hand. -->\n\n'
const order = ['function', 'value', 'class', 'type'] as const

function byKindAndName(a: Declaration, b: Declaration): number {
  return order.indexOf(a.kind) - order.indexOf(b.kind) || (a.name < b.name ? -1 : 1)
}

function pageOf(entry: string, declarations: readonly Declaration[], source: string): string {
  const { common, shown } = examplesIn(source)
  const shared = common === '' ? '' : `The examples below have this in common:\n\n${fence(common)}\n\n`
  const names = declarations.map(({ name }) => `[${name}](#${name.toLowerCase()})`).join(', ')
  return `${notice}# ${entry}\n\n${names}\n\n${shared}${declarations.map((each) => sectionOf(each, shown)).join('\n')}`
}

/** Examples that run replace those in comments. */
function sectionOf({ name, comments, statements }: Declaration, shown: readonly Shown[]): string {
  const { text, examples: noted } = readComment(comments.join('\n'))
  const run = shown.filter(({ shows }) => shows.some((verb) => verb.split('.')[0] === name)).map(({ code }) => code)
  const examples = run.length > 0 ? run : noted
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

/** The exports of a module by name, including those that it re-exports. */
function exportsOf(file: string): Map<string, Declaration> {
  const found = new Map<string, Declaration>()
  const own = new Map<string, Declaration>()
  const named: {
    readonly local: string
    readonly name: string
    readonly from: string | null
    readonly isType: boolean
  }[] = []
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
        const isType = statement.startsWith('export type') || /^\s*type /.test(item)
        const [local, name = local] = item
          .trim()
          .replace(/^type /, '')
          .split(' as ')
        named.push({ local: local!, name: name!, from: passed[2] ?? null, isType })
      }
    } else {
      const declared = /^(export )?(?:declare )?(?:abstract )?(function|const|let|class|interface|type) (\w+)/.exec(
        statement,
      )
      if (declared) add(declared[3]!, declared[2]!, statement, comment, declared[1] !== undefined)
    }
    comment = null
  }
  for (const { local, name, from, isType } of named) {
    const each = from === null ? own.get(local) : exportsOf(moduleAt(file, from)).get(local)
    if (!each) throw new Error(`${file} exports ${name}, and ${from ?? 'it'} does not have ${local}`)
    found.set(name, { ...each, name, isType })
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

/**
 * Statements and comments at the top level, in order. Continuation lines are indented or begin with a closing bracket.
 */
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
