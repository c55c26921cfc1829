// Converts patterns of inputs and outputs to the form of engine/base/file-tree/patterns.ts: anchored at the directory, braces
// expanded. A pattern that other tools interpret differently is refused with a suggestion: a pattern that silently matches
// nothing would omit a file from the key.

import { isAbsolute } from 'node:path'
import { RepriseError } from '../../core/errors.ts'
import { shown } from '../../core/file-tree-path.ts'
import { isMatchedBy, parsePatterns } from '../../engine/base/file-tree/patterns.ts'

const expandedMax = 256

/**
 * Anchored at the root, unlike .gitignore: `package.json` matches only in the root, `**\/package.json` everywhere.
 * @example anchoredAll(['src/*.{ts,js}']) // ['/src/*.ts', '/src/*.js']
 * /
 */
export function anchoredAll(patterns: readonly string[]): string[] {
  return patterns.flatMap((given) => {
    const written = expanded(anchored(given), given)
    if (written.length > expandedMax) throw refuse(given, `stands for more than ${expandedMax} patterns`)
    return written.flatMap(withLiteral)
  })
}

function anchored(pattern: string): string {
  const isText = typeof pattern === 'string' && pattern.trim() !== '' && !pattern.includes('\n')
  if (!isText || pattern.split(/[/\\]/).includes('..') || isAbsolute(pattern)) {
    const what = `inputs and outputs are patterns of files below the directory, such as src/**; ${shown(String(pattern))} is not one`
    throw new RepriseError('INVALID_ARGUMENT', what, { pattern: String(pattern).slice(0, 200) })
  }
  if (/[@+?*!]\(/.test(pattern.slice(1)) || /^[@+?*]\(/.test(pattern)) {
    throw refuse(pattern, 'has a group, which is not supported: write {a,b}, or several patterns')
  }
  const isNegated = pattern.startsWith('!')
  const path = pattern
    .slice(isNegated ? 1 : 0)
    .replaceAll(/\/{2,}/g, '/')
    .replace(/^\.\//, '')
  return `${isNegated ? '!' : ''}/${path}`
}

/** Expands the first pair of braces with a comma, then the results. */
function expanded(pattern: string, given: string): string[] {
  const start = pattern.search(/(?<!\\)\{/)
  if (start < 0) return [pattern]
  let depth = 0
  const cuts = [start]
  for (let at = start; at < pattern.length; at++) {
    if (pattern[at] === '\\') at += 1
    else if (pattern[at] === '{') depth += 1
    else if (pattern[at] === ',' && depth === 1) cuts.push(at)
    else if (pattern[at] === '}' && --depth === 0) {
      if (cuts.length < 2) break
      const [before, after] = [pattern.slice(0, start), pattern.slice(at + 1)]
      const choices = cuts.map((cut, i) => pattern.slice(cut + 1, cuts[i + 1] ?? at))
      if (choices.length > expandedMax) throw refuse(given, `stands for more than ${expandedMax} patterns`)
      return choices.flatMap((choice) => expanded(before + choice + after, given))
    }
  }
  throw refuse(given, 'has braces without a choice: write {a,b}, or \\{ for a brace in a name')
}

/** `[id].ts` is a set of characters, and also the name of a route in some frameworks: both are matched. */
function withLiteral(pattern: string): string[] {
  if (!/(?<!\\)\[/.test(pattern)) return [pattern]
  return [pattern, pattern.replaceAll(/(?<!\\)[[\]]/g, '\\$&')]
}

/** The given patterns that no file has matched so far. Negated patterns are exempt. */
export class Unmatched {
  #left: { readonly pattern: string; readonly rules: ReturnType<typeof parsePatterns> }[]

  constructor(given: readonly string[]) {
    this.#left = given
      .filter((pattern) => !pattern.startsWith('!'))
      .map((pattern) => ({ pattern, rules: parsePatterns(anchoredAll([pattern]).join('\n')) }))
  }

  get left(): readonly string[] {
    return this.#left.map(({ pattern }) => pattern)
  }

  /** Records the files of one folder. */
  saw({ folder, names }: { readonly folder: string; readonly names: readonly string[] }): void {
    this.#left = this.#left.filter(({ rules }) => {
      if (folder !== '' && (isMatchedBy(rules, folder, true) || isBelowMatch(rules, folder))) return false
      const start = folder === '' ? '' : `${folder}/`
      return !names.some((name) => isMatchedBy(rules, start + name, false))
    })
  }
}

function isBelowMatch(rules: ReturnType<typeof parsePatterns>, path: string): boolean {
  for (let cut = path.lastIndexOf('/'); cut > 0; cut = path.lastIndexOf('/', cut - 1)) {
    if (isMatchedBy(rules, path.slice(0, cut), true)) return true
  }
  return false
}

function refuse(pattern: string, why: string): RepriseError {
  return new RepriseError('INVALID_ARGUMENT', `the pattern ${shown(pattern)} ${why}`, {
    pattern: pattern.slice(0, 200),
  })
}
