// Undeclared reads outside a command's directory, grouped by package, each with a suggested declaration: the lock file of an
// installed package, the files of a neighbour package, or the program as a tool. Folders of the operating system and caches of
// tools are omitted; they do not affect results.

import { existsSync } from 'node:fs'
import { homedir } from 'node:os'
import { join, relative, sep } from 'node:path'
import { isMatchedBy, parsePatterns } from '../../engine/base/file-tree/patterns.ts'
import { byFolder } from './input-files.ts'
import { findTool, packageFolder } from './path-programs.ts'
import { anchoredAll } from './patterns.ts'

const systemFolders = [
  '/usr',
  '/lib',
  '/lib32',
  '/lib64',
  '/bin',
  '/sbin',
  '/etc',
  '/proc',
  '/sys',
  '/dev',
  '/run',
  '/var',
]
const cacheFolders = ['.cache', '.npm'].map((name) => join(homedir(), name))
const lockFiles = ['package-lock.json', 'npm-shrinkwrap.json', 'yarn.lock', 'pnpm-lock.yaml', 'bun.lock', 'bun.lockb']

export interface OutsideRead {
  /** The folder of the package, or the file if it belongs to no package. */
  readonly path: string
  /** The suggested addition to the definition. */
  readonly add: { readonly input: string } | { readonly tool: string }
}

export interface Traced {
  /** Absolute paths. */
  readonly read: ReadonlySet<string>
  /** The files of `read` that were executed. */
  readonly executed: ReadonlySet<string>
}

export function readsOutside(
  { read, executed }: Traced,
  directory: string,
  { inputs, tools = [] }: { readonly inputs: readonly string[]; readonly tools?: readonly string[] },
): OutsideRead[] {
  const known = [...tools].flatMap((name) => findTool(name) ?? []).map(unitOf)
  const found = new Map<string, OutsideRead>()
  // Programs first: other files of a program's package then belong to the program.
  for (const path of [...read].sort((a, b) => Number(executed.has(b)) - Number(executed.has(a)))) {
    if (isBelow(path, directory) || isIgnored(path) || isDeclared(path, directory, inputs)) continue
    const package_ = packageOutside(path, directory)
    const unit = package_ ?? path
    if (known.includes(unit) || found.has(unit)) continue
    found.set(unit, { path: unit, add: additionFor(path, package_, executed, directory) })
  }
  return [...found.values()].sort((a, b) => (a.path < b.path ? -1 : 1))

  function unitOf(path: string): string {
    return packageOutside(path, directory) ?? path
  }
}

function additionFor(
  path: string,
  folder: string | null,
  executed: ReadonlySet<string>,
  directory: string,
): OutsideRead['add'] {
  const lock = nodeModulesAround(path)
    .flatMap((around) => lockFiles.map((name) => join(around, name)))
    .find(existsSync)
  if (lock !== undefined && !lock.startsWith(directory + sep)) return { input: fromHere(directory, lock) }
  const name = path.slice(path.lastIndexOf(sep) + 1)
  if (executed.has(path) && findTool(name) === path) return { tool: name }
  return { input: folder === null ? fromHere(directory, path) : `${fromHere(directory, folder)}/**` }
}

/** The package of a file; null if it also contains the command's directory. */
function packageOutside(path: string, directory: string): string | null {
  const installed = /^(.*[/\\]node_modules[/\\](?:@[^/\\]+[/\\])?[^/\\]+)[/\\]/.exec(path)?.[1]
  const folder = installed ?? packageFolder(path)
  return folder === null || directory === folder || isBelow(directory, folder) ? null : folder
}

/** The folders whose node_modules contain a file, outermost first. */
function nodeModulesAround(path: string): string[] {
  return [...path.matchAll(/[/\\]node_modules[/\\]/g)].map(({ index }) => path.slice(0, index))
}

function isDeclared(path: string, directory: string, inputs: readonly string[]): boolean {
  for (const [up, patterns] of byFolder(inputs)) {
    if (up === '') continue
    const root = join(directory, up, '.').replace(/[/\\]$/, '')
    if (!isBelow(path, root)) continue
    const rules = parsePatterns(anchoredAll(patterns).join('\n'))
    if (isCovered(rules, relative(root, path).split(sep).join('/'))) return true
    const isLocked = nodeModulesAround(path).some((around) =>
      lockFiles.some((name) => isCovered(rules, relative(root, join(around, name)).split(sep).join('/'))),
    )
    if (isLocked) return true
  }
  return false
}

/** True if the path or one of its parent folders matches. */
export function isCovered(rules: ReturnType<typeof parsePatterns>, path: string): boolean {
  const names = path.split('/')
  let isIn = false
  for (let i = 1; i <= names.length; i++)
    isIn = isMatchedBy(rules, names.slice(0, i).join('/'), i < names.length) ?? isIn
  return isIn
}

function isIgnored(path: string): boolean {
  return [...systemFolders, ...cacheFolders].some((folder) => isBelow(path, folder))
}

function isBelow(path: string, folder: string): boolean {
  return path.startsWith(folder.endsWith(sep) ? folder : folder + sep)
}

function fromHere(directory: string, path: string): string {
  return relative(directory, path).split(sep).join('/')
}
