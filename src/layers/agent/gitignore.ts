// What .gitignore means, for the capture of workspaces: patterns from the root down, the last match decides, "!" takes
// back, "/" at the front or in the middle anchors, at the end asks for a folder, "**" spans folders. Pure text in, answer out.

interface Rule {
  readonly test: RegExp
  readonly isNegated: boolean
  readonly isForFolders: boolean
}

/** The rules of one .gitignore file, for paths relative to its folder. */
export type Rules = readonly Rule[]

export function parseIgnore(text: string): Rules {
  return text.split(/\r?\n/).flatMap((line): Rule[] => {
    // Spaces at the end count only behind a backslash.
    let pattern = line.replace(/(?<!\\)[ \t]+$/, '')
    if (pattern === '' || pattern.startsWith('#')) return []
    const isNegated = pattern.startsWith('!')
    if (isNegated) pattern = pattern.slice(1)
    const isForFolders = pattern.endsWith('/')
    if (isForFolders) pattern = pattern.slice(0, -1)
    const isAnchored = pattern.includes('/')
    if (pattern.startsWith('/')) pattern = pattern.slice(1)
    return [{ test: new RegExp(`^${isAnchored ? '' : '(?:.*/)?'}${toSource(pattern)}$`, 's'), isNegated, isForFolders }]
  })
}

/** True: ignored, false: taken back, null: these rules say nothing. */
export function isIgnoredBy(rules: Rules, path: string, isFolder: boolean): boolean | null {
  let verdict: boolean | null = null
  for (const rule of rules) {
    if (rule.isForFolders && !isFolder) continue
    if (rule.test.test(path)) verdict = !rule.isNegated
  }
  return verdict
}

function toSource(pattern: string): string {
  let source = ''
  for (let i = 0; i < pattern.length; i++) {
    const rest = pattern.slice(i)
    if (rest.startsWith('**/')) {
      source += '(?:.*/)?'
      i += 2
    } else if (rest.startsWith('/**') && rest.length === 3) {
      source += '/.+'
      i += 2
    } else if (rest[0] === '*') {
      source += '[^/]*'
      while (pattern[i + 1] === '*') i += 1
    } else if (rest[0] === '?') source += '[^/]'
    else if (rest[0] === '[' && rest.indexOf(']', 2) > 0) {
      const end = rest.indexOf(']', 2)
      const set = rest.slice(1, end).replaceAll('\\', '\\\\').replace(/^!/, '^')
      source += `[${set}]`
      i += end
    } else if (rest[0] === '\\' && rest.length > 1) {
      source += literal(rest[1]!)
      i += 1
    } else source += literal(rest[0]!)
  }
  return source
}

function literal(character: string): string {
  return character.replace(/[.*+?^${}()|[\]\\/]/g, '\\$&')
}
