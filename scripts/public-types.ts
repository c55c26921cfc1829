// Finds the types that a user can meet: those in the declarations of an entry, and those in their declarations in turn. Like
// api-page.ts, it relies on the layout of tsc's declarations. A class that is exported as a type only has no constructor and no
// static side for its users; private and protected members do not count either.

import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

export interface Reached {
  readonly name: string
  readonly file: string
  /** The names on the path to it, from an exported name. */
  readonly by: readonly string[]
}

interface Module {
  readonly statements: ReadonlyMap<string, readonly string[]>
  /** Its imports, by their local names, without those from packages. */
  readonly imported: ReadonlyMap<string, { readonly file: string; readonly name: string }>
  readonly exported: ReadonlyMap<string, { readonly file: string; readonly name: string; readonly isType: boolean }>
  /** Modules whose exports are all re-exported. */
  readonly all: readonly string[]
}

/** Reads declarations; one instance reads each file once. */
export class PublicTypes {
  readonly #modules = new Map<string, Module>()

  /** The exports of an entry, as `file name`. */
  exportsOf(file: string): Map<string, { readonly isType: boolean }> {
    return new Map([...this.namesOf(file).values()].map(({ home, isType }) => [home, { isType }]))
  }

  /** The exports of an entry by name, each with the file and the name of its declaration. */
  namesOf(file: string): Map<string, { readonly home: string; readonly isType: boolean }> {
    const module = this.#module(file)
    const found = new Map(module.all.flatMap((from) => [...this.namesOf(from)]))
    for (const [name, { isType, ...at }] of module.exported) {
      const home = this.#home(at.file, at.name)
      if (home) found.set(name, { home: `${home.file} ${home.name}`, isType })
    }
    return found
  }

  /** The text of a declaration and of those that it extends, without members that a user cannot use. */
  declarationOf(home: string): string {
    const [file, name] = home.split(' ') as [string, string]
    const own = (this.#module(file).statements.get(name) ?? []).map((each) => visible(each, true)).join('\n')
    const [, extended = ''] = /^[^{]*?\bextends ([^{]*)\{/.exec(own.replace(/<[^{]*?>(?=[ ,{])/g, '')) ?? []
    const bases = [...extended.matchAll(/\b[A-Z]\w*/g)].flatMap(([base]) => this.#home(file, base) ?? [])
    return [own, ...bases.map((base) => this.declarationOf(`${base.file} ${base.name}`))].join('\n')
  }

  /** The types in the parameters of the constructors of exported classes, also of those that are exported as a type only. */
  constructedFrom(file: string): { readonly name: string; readonly home: string; readonly takes: readonly string[] }[] {
    return [...this.namesOf(file)].flatMap(([name, { home }]) => {
      const [declaredIn, local] = home.split(' ') as [string, string]
      const statements = this.#module(declaredIn).statements.get(local) ?? []
      const text = statements.find((each) => /^(export )?(declare )?(abstract )?class /.test(each))
      const [, parameters] = /^ {4}constructor\(([\s\S]*?)\);$/m.exec(text ?? '') ?? []
      if (parameters === undefined) return []
      const takes = [...parameters.matchAll(/\b[A-Z]\w*/g)].flatMap(([type]) => {
        const from = this.#home(declaredIn, type)
        return from ? [`${from.file} ${from.name}`] : []
      })
      return [{ name, home, takes }]
    })
  }

  /**
   * All types that can be reached from the exports of the entry, without the exports. The types below `leaves` are not followed.
   */
  reachedFrom(file: string, leaves: ReadonlySet<string> = new Set()): Reached[] {
    const start = this.exportsOf(file)
    const seen = new Set(start.keys())
    const found: Reached[] = []
    const queue = [...start].map(([key, { isType }]) => {
      const [home, name] = key.split(' ') as [string, string]
      return { file: home, name, isType, by: [name] as readonly string[] }
    })
    for (let next = queue.shift(); next; next = queue.shift()) {
      if (leaves.has(next.name)) continue
      for (const name of this.#named(next.file, next.name, next.isType)) {
        const home = this.#home(next.file, name)
        if (!home || seen.has(`${home.file} ${home.name}`)) continue
        seen.add(`${home.file} ${home.name}`)
        found.push({ ...home, by: next.by })
        queue.push({ ...home, isType: true, by: [...next.by, home.name] })
      }
    }
    return found
  }

  /** The types that the statements of a declaration name; `typeof` a value needs no name of its own. */
  #named(file: string, name: string, isType: boolean): Set<string> {
    const names = new Set<string>()
    for (const statement of this.#module(file).statements.get(name) ?? []) {
      const text =
        isType || /^export declare (abstract )?class/.test(statement) ? visible(statement, isType) : statement
      for (const [word] of text.replace(/'[^']*'|\btypeof \w+/g, '').matchAll(/\b[A-Z]\w*/g)) names.add(word)
    }
    names.delete(name)
    return names
  }

  /** Where a name that a file uses is declared; null: in a package, or nowhere (a type parameter, a property). */
  #home(file: string, name: string): { readonly file: string; readonly name: string } | null {
    const module = this.#module(file)
    if (module.statements.has(name)) return { file, name }
    const from = module.imported.get(name) ?? module.exported.get(name)
    return from && from.file !== file ? this.#home(from.file, from.name) : null
  }

  #module(file: string): Module {
    const known = this.#modules.get(file)
    if (known) return known
    const read = readModule(file)
    this.#modules.set(file, read)
    return read
  }
}

function readModule(file: string): Module {
  const statements = new Map<string, string[]>()
  const imported = new Map<string, { file: string; name: string }>()
  const exported = new Map<string, { file: string; name: string; isType: boolean }>()
  const text = readFileSync(file, 'utf8').replace(/\/\*[\s\S]*?\*\//g, '')
  const all: string[] = []
  for (const statement of text.split(/\n(?=[a-z])/).map((each) => each.trim())) {
    const [, passed] = /^export \* from '(.*)';$/.exec(statement) ?? []
    if (passed !== undefined) all.push(join(dirname(file), passed.replace(/\.[jt]s$/, '.d.ts')))
    const list = /^(import|export) (type )?\{([\s\S]*?)\}(?: from '(.*)')?;?$/.exec(statement)
    if (list) {
      const [, verb, type, names, from] = list
      if (from !== undefined && !from.startsWith('.')) continue
      const home = from === undefined ? file : join(dirname(file), from.replace(/\.[jt]s$/, '.d.ts'))
      for (const item of names!.split(',').map((each) => each.trim())) {
        if (item === '') continue
        const [local, other = local] = item.replace(/^type /, '').split(' as ') as [string, string?]
        const isType = type !== undefined || item.startsWith('type ')
        if (verb === 'import') imported.set(other!, { file: home, name: local })
        else exported.set(other!, { file: home, name: local, isType })
      }
      continue
    }
    const declared = /^(export )?(?:declare )?(?:abstract )?(?:function\*?|const|let|class|interface|type) (\w+)/.exec(
      statement,
    )
    if (!declared) continue
    const name = declared[2]!
    statements.set(name, [...(statements.get(name) ?? []), statement])
    if (declared[1]) exported.set(name, { file, name, isType: false })
  }
  return { statements, imported, exported, all }
}

/** Without the members that a user cannot use. */
function visible(statement: string, isType: boolean): string {
  const hidden = isType ? /^ {4}(private|protected|static|#private|constructor\b)/ : /^ {4}(private|protected|#private)/
  let isHidden = false
  const lines = statement.split('\n').filter((line) => {
    if (/^ {4}[^\s})\]]/.test(line)) isHidden = hidden.test(line)
    return !isHidden || /^\}/.test(line)
  })
  return lines.join('\n')
}
