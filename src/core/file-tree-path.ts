// Paths inside a tree of files, as stored data names them: relative, separated by "/", made of plain names. A path may come
// from an import, so all paths are checked before the first file is written: none may leave the tree, and no two of them
// may need the same place.

import { RepriseError } from './errors.ts'
import type { Limits } from './limits.ts'

const nameBytesMax = 255

/**
 * Temporary files of a restore in progress, named by `temporaryName`. A capture skips them, and a later restore removes
 * them. A recorded path of that form cannot come from a capture, so it is refused.
 */
const temporary = /^\.reprise-restore-[0-9a-f]{32}$/i

export function temporaryName(hex: string): string {
  return `.reprise-restore-${hex}`
}

export function isTemporary(name: string): boolean {
  return temporary.test(name)
}

/** The names of a path, from the root down. @example namesOf('src/a.ts', limits) // ['src', 'a.ts'] */
export function namesOf(path: string, limits: Pick<Limits, 'treeDepth'>): string[] {
  const names = path.split('/')
  const wrong = names.map(whyNotAName).find((why) => why !== null)
  if (wrong) throw unsafe(path, wrong)
  if (names.length - 1 > limits.treeDepth) {
    throw new RepriseError(
      'LIMIT_EXCEEDED',
      `${shown(path)} is ${names.length - 1} directories deep, more than ${limits.treeDepth} (treeDepth)`,
      { path: shown(path) },
    )
  }
  return names
}

/** Refuses paths that cannot all be files of one tree. Returns those that differ only in case or Unicode composition. */
export function checkPaths(paths: Iterable<string>, limits: Pick<Limits, 'treeDepth' | 'treeNames'>): string[] {
  const files = new Set<string>()
  for (const path of paths) {
    namesOf(path, limits)
    files.add(path)
  }
  if (files.size > limits.treeNames) throw tooManyNames(limits)
  const spellings = new Map<string, string>()
  const clashing: string[] = []
  for (const path of files) {
    for (let end = path.indexOf('/'); end >= 0; end = path.indexOf('/', end + 1)) {
      const folder = path.slice(0, end)
      if (files.has(folder)) throw unsafe(path, `${shown(folder)} is recorded both as a file and as a directory`)
      if (!note(folder)) clashing.push(path)
    }
    if (!note(path)) clashing.push(path)
  }
  return clashing

  function note(path: string): boolean {
    const folded = path.normalize('NFC').toLowerCase()
    const known = spellings.get(folded)
    if (known === undefined) spellings.set(folded, path)
    return known === undefined || known === path
  }
}

export function tooManyNames(limits: Pick<Limits, 'treeNames'>): RepriseError {
  return new RepriseError('LIMIT_EXCEEDED', `the tree has more than ${limits.treeNames} names (treeNames)`, {
    treeNames: limits.treeNames,
  })
}

export function unsafe(path: string, why: string): RepriseError {
  return new RepriseError('UNSAFE_PATH', `the recorded path ${shown(path)} is refused: ${why}`, { path: shown(path) })
}

/** Shortens and quotes a path for an error: the path may be long and contain any character. */
export function shown(path: string): string {
  return JSON.stringify(path.length > 80 ? `${path.slice(0, 80)}…` : path)
}

function whyNotAName(name: string): string | null {
  if (name === '') return 'it is absolute, or contains an empty name'
  if (name === '.' || name === '..') return `"${name}" is not the name of a file`
  if (name.includes('\0')) return 'it contains a name with a NUL character'
  if (/\p{Surrogate}/u.test(name)) return 'it contains a name that is not valid Unicode'
  if (name.length * 3 > nameBytesMax && new TextEncoder().encode(name).length > nameBytesMax)
    return `it contains a name of more than ${nameBytesMax} bytes`
  if (isTemporary(name)) return 'names of this form are reserved for restores'
  return null
}
