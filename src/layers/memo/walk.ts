// The files below a directory that match patterns, folder by folder: the names of a folder are returned together and sorted,
// so that they can be compared with the known folder at once. Folders that cannot contain a match are skipped.

import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { RepriseError } from '../../core/errors.ts'
import { shown, tooManyNames } from '../../core/file-tree-path.ts'
import type { Limits } from '../../core/limits.ts'
import { isMatchedBy, parsePatterns } from '../../engine/base/file-tree/patterns.ts'

export type FileLimits = Pick<Limits, 'treeDepth' | 'treeNames'>

/** Skipped unless a pattern names them explicitly. */
const leftOut = { inputs: parsePatterns('.git/\n.reprise/\nnode_modules/'), outputs: parsePatterns('.git/\n.reprise/') }
const sliceMs = 8
/** The clock is read once per this many names. */
const namesBetween = 64

export interface MatchingOptions {
  readonly of: 'inputs' | 'outputs'
  /** Skips links to directories: a restore replaces them. */
  readonly passesLinks?: boolean
}

/** The matches in one folder that are not folders themselves. */
export interface FolderFiles {
  /** Path below the root, with '/'; '' is the root. */
  readonly folder: string
  /** Sorted. */
  readonly names: readonly string[]
  /** True if the folder itself matches, or `folder/**` is a pattern. */
  readonly isWhole: boolean
}

/** Determines when to yield: a large tree must not block the process. */
export class TimeSlices {
  #end = performance.now() + sliceMs

  get isDue(): boolean {
    return performance.now() >= this.#end
  }

  async next(): Promise<void> {
    await new Promise((done) => setImmediate(done))
    this.#end = performance.now() + sliceMs
  }
}

/** The paths that match the anchored patterns and are not folders. */
export async function* matching(
  root: string,
  patterns: readonly string[],
  limits: FileLimits,
  options: MatchingOptions,
): AsyncGenerator<string> {
  for await (const { folder, names } of foldersMatching(root, patterns, limits, options)) {
    for (const name of names) yield pathOf(folder, name)
  }
}

/** The same by folder: folders with a match, and folders that match as a whole. */
export async function* foldersMatching(
  root: string,
  patterns: readonly string[],
  limits: FileLimits,
  options: MatchingOptions,
  slices = new TimeSlices(),
): AsyncGenerator<FolderFiles> {
  for (const found of walked(root, patterns, limits, options, slices)) {
    if (found === null) await slices.next()
    else yield found
  }
}

export function pathOf(folder: string, name: string): string {
  return folder === '' ? name : `${folder}/${name}`
}

/** Yields null when the caller should yield to other work. */
function* walked(
  root: string,
  patterns: readonly string[],
  limits: FileLimits,
  { of, passesLinks = false }: MatchingOptions,
  slices: TimeSlices,
): Generator<FolderFiles | null> {
  const rules = parsePatterns(patterns.join('\n'))
  const skips = patterns.some((each) => /(^|\/)(\.git|\.reprise|node_modules)(\/|$)/.test(each)) ? [] : leftOut[of]
  const takesBack = patterns.some((each) => each.startsWith('!'))
  let count = 0
  const walk = function* (folder: string, depth: number, isIn: boolean): Generator<FolderFiles | null> {
    if (depth > limits.treeDepth) {
      const what = `${shown(folder)} is more than ${limits.treeDepth} directories deep (treeDepth)`
      throw new RepriseError('LIMIT_EXCEEDED', what, { path: folder })
    }
    const names: string[] = []
    const below: { readonly path: string; readonly isWanted: boolean }[] = []
    for (const entry of listed(join(root, folder))) {
      count += 1
      if (count > limits.treeNames) throw tooManyNames(limits)
      if (count % namesBetween === 0 && slices.isDue) yield null
      const { name } = entry
      const isFolder = entry.isDirectory()
      // Everything below a matching folder matches, unless a negated pattern excludes it.
      const isSure = isIn && !takesBack
      if (isSure && !isFolder) {
        names.push(readable(folder, name))
        continue
      }
      const path = pathOf(folder, name)
      if (isFolder && isMatchedBy(skips, path, isFolder)) continue
      const isWanted = isSure || (isMatchedBy(rules, path, isFolder) ?? isIn)
      if (isFolder) {
        if (isWanted) readable(folder, name)
        if (isWanted || mayHold(patterns, path)) below.push({ path, isWanted })
      } else if (isWanted) names.push(readable(folder, name))
      else if (
        !passesLinks &&
        entry.isSymbolicLink() &&
        isOnTheWay(patterns, path) &&
        leadsToFolder(join(root, path))
      ) {
        throw linkedFolder(path)
      }
    }
    const isWhole = folder !== '' && (isIn || patterns.includes(`/${folder}/**`))
    if (isWhole || names.length > 0) yield { folder, names, isWhole }
    for (const { path, isWanted } of below) yield* walk(path, depth + 1, isWanted)
  }
  yield* walk('', 0, false)
}

function readable(folder: string, name: string): string {
  if (!name.includes('\u{FFFD}')) return name
  throw new RepriseError('INVALID_ARGUMENT', `a name below ${shown(folder || '.')} is not valid text: rename it`, {
    folder,
  })
}

export function linkedFolder(path: string): RepriseError {
  const what = `${shown(path)} is a link to a directory, whose files would not be read: name the directory itself`
  return new RepriseError('INVALID_ARGUMENT', what, { path })
}

function leadsToFolder(path: string): boolean {
  try {
    return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false
  } catch {
    // A circular link, or no permission.
    return false
  }
}

function listed(folder: string) {
  try {
    return readdirSync(folder, { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1))
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ENOTDIR') return []
    throw new RepriseError('TREE_BLOCKED', `${shown(folder)} cannot be listed: ${(error as Error).message}`, {}, error)
  }
}

/** False only if no pattern can match below the folder. */
function mayHold(patterns: readonly string[], folder: string): boolean {
  return patterns.some((pattern) => {
    if (pattern.startsWith('!')) return false
    const wildcard = pattern.search(/[*?[\\]/)
    // A pattern without wildcards matches only along its own path.
    const own = `/${folder}/`
    if (wildcard < 0) return pattern.startsWith(own)
    const fixed = pattern.slice(0, wildcard)
    const start = fixed.slice(1, fixed.lastIndexOf('/') + 1)
    return `${folder}/`.startsWith(start) || start.startsWith(`${folder}/`)
  })
}

/** True if the fixed part of a pattern, before its first wildcard, leads through this path. */
function isOnTheWay(patterns: readonly string[], path: string): boolean {
  return patterns.some((pattern) => !pattern.startsWith('!') && `${fixedPart(pattern)}/`.startsWith(`${path}/`))
}

/** @example fixedPart('/src/x/*.ts') // 'src/x' */
function fixedPart(pattern: string): string {
  const wildcard = pattern.search(/[*?[\\]/)
  return wildcard < 0 ? pattern.slice(1) : pattern.slice(1, pattern.lastIndexOf('/', wildcard))
}

/** The patterns without wildcards. */
export function plainPaths(patterns: readonly string[]): string[] {
  const plain = patterns.filter((pattern) => !pattern.startsWith('!') && !/[*?[\\]/.test(pattern))
  return plain.map((pattern) => pattern.slice(1).replace(/\/$/, ''))
}
