// Patterns that name files, in the syntax of .gitignore: patterns apply from the root down, the last match decides, "!"
// negates, "/" at the front or in the middle anchors, "/" at the end matches folders only, "**" spans folders. Pure
// text functions. The author of a workspace writes the patterns, so a match takes at most pattern length times path
// length steps: it uses no regular expressions, and a failing star backtracks to the last star only.

import { RepriseError } from '../../../core/errors.ts'

interface Rule {
  readonly segments: readonly Segment[]
  readonly isNegated: boolean
  readonly isForFolders: boolean
}

/** Any number of folders, or the pattern of one name. */
type Segment = 'folders' | readonly Token[]

/** Any characters, one character, or one of a set. */
type Token = 'star' | 'any' | string | CharacterSet

interface CharacterSet {
  readonly isNegated: boolean
  has(code: number): boolean
}

/** The rules of one .gitignore file, for paths relative to its folder. */
export type Rules = readonly Rule[]

const rulesMax = 4096
const patternLengthMax = 1024

/** @example isMatchedBy(parsePatterns('*.log'), 'debug.log', false) // true */
export function parsePatterns(text: string, name = 'the list of patterns'): Rules {
  const rules: Rule[] = []
  for (const line of text.replace(/^\u{FEFF}/u, '').split('\n')) {
    const rule = parseLine(line.endsWith('\r') ? line.slice(0, -1) : line, name)
    if (rule) rules.push(rule)
    if (rules.length > rulesMax) {
      throw new RepriseError('LIMIT_EXCEEDED', `${name} has more than ${rulesMax} patterns`, { name })
    }
  }
  return rules
}

/** True: matched. False: negated. Null: no rule matches. */
export function isMatchedBy(rules: Rules, path: string, isFolder: boolean): boolean | null {
  const names = path.split('/')
  for (let i = rules.length - 1; i >= 0; i--) {
    const { segments, isNegated, isForFolders } = rules[i]!
    if ((!isForFolders || isFolder) && matchPath(segments, names)) return !isNegated
  }
  return null
}

function parseLine(line: string, name: string): Rule | null {
  if (line.startsWith('#')) return null
  let pattern = withoutTrailingSpaces(line)
  const isNegated = pattern.startsWith('!')
  if (isNegated) pattern = pattern.slice(1)
  const isForFolders = pattern.endsWith('/')
  if (isForFolders) pattern = pattern.slice(0, -1)
  if (pattern === '') return null
  if (pattern.length > patternLengthMax) {
    throw new RepriseError('LIMIT_EXCEEDED', `${name} has a pattern of more than ${patternLengthMax} characters`, {
      name,
    })
  }
  const isAnchored = pattern.includes('/')
  const names = (pattern.startsWith('/') ? pattern.slice(1) : pattern).split('/')
  const segments: Segment[] = isAnchored ? [] : ['folders']
  for (const [i, each] of names.entries()) {
    const tokens = tokensOf(each)
    // git, too, matches nothing with such a pattern.
    if (!tokens) return null
    if (each !== '**' || !isAnchored) segments.push(tokens)
    else if (i < names.length - 1) segments.push('folders')
    // At the end, "**" matches everything inside, so at least one name.
    else segments.push('folders', ['star'])
  }
  return { segments, isNegated, isForFolders }
}

/** Trailing spaces count only after a backslash. */
function withoutTrailingSpaces(line: string): string {
  let end = 0
  for (let i = 0; i < line.length; i++) {
    if (line[i] === '\\') {
      i += 1
      end = Math.min(i + 1, line.length)
    } else if (line[i] !== ' ') end = i + 1
  }
  return line.slice(0, end)
}

/** Matches path segments, backtracking to the last "**" only. */
function matchPath(segments: readonly Segment[], names: readonly string[]): boolean {
  return matchWithStars(
    segments.length,
    names.length,
    (s) => segments[s] === 'folders',
    (s, n) => matchName(segments[s] as readonly Token[], names[n]!),
  )
}

function matchName(tokens: readonly Token[], name: string): boolean {
  return matchWithStars(
    tokens.length,
    name.length,
    (t) => tokens[t] === 'star',
    (t, c) => matchCharacter(tokens[t]!, name, c),
  )
}

/**
 * True if the whole text matches, where a star matches any part of it. A star matches as little as possible; on a
 * mismatch, the last star takes one more. Earlier stars need no backtracking: the last star covers every such case.
 */
function matchWithStars(
  patternLength: number,
  textLength: number,
  isStar: (at: number) => boolean,
  isMatch: (at: number, index: number) => boolean,
): boolean {
  let at = 0
  let index = 0
  let star = -1
  let taken = 0
  while (index < textLength) {
    if (at < patternLength && isStar(at)) {
      star = at
      taken = index
      at += 1
    } else if (at < patternLength && isMatch(at, index)) {
      at += 1
      index += 1
    } else if (star >= 0) {
      at = star + 1
      taken += 1
      index = taken
    } else return false
  }
  while (at < patternLength && isStar(at)) at += 1
  return at === patternLength
}

function matchCharacter(token: Token, name: string, index: number): boolean {
  if (token === 'any') return true
  if (typeof token === 'string') return token === name[index]
  return token.has(name.charCodeAt(index)) !== token.isNegated
}

/** Null: the pattern is malformed. */
function tokensOf(pattern: string): Token[] | null {
  const tokens: Token[] = []
  for (let i = 0; i < pattern.length; i++) {
    const character = pattern[i]!
    if (character === '*') {
      if (tokens.at(-1) !== 'star') tokens.push('star')
    } else if (character === '?') tokens.push('any')
    else if (character === '[') {
      const set = readSet(pattern, i + 1)
      if (!set) return null
      tokens.push(set.set)
      i = set.end
    } else if (character === '\\') {
      i += 1
      if (i === pattern.length) return null
      tokens.push(pattern[i]!)
    } else tokens.push(character)
  }
  return tokens
}

/** Reads from after "[" to its "]". Null: there is none, or a character class is unknown. */
function readSet(pattern: string, start: number): { readonly set: CharacterSet; readonly end: number } | null {
  let i = start
  const isNegated = pattern[i] === '!' || pattern[i] === '^'
  if (isNegated) i += 1
  const ranges: (readonly [number, number])[] = []
  const classes: RegExp[] = []
  for (let isFirst = true; isFirst || pattern[i] !== ']'; isFirst = false, i++) {
    if (i >= pattern.length) return null
    const named = /^\[:([a-z]*):\]/.exec(pattern.slice(i, i + 12))
    if (named) {
      const known = characterClasses[named[1]!]
      if (!known) return null
      classes.push(known)
      i += named[0].length - 1
      continue
    }
    if (pattern[i] === '\\') i += 1
    const first = pattern.charCodeAt(i)
    if (pattern[i + 1] === '-' && i + 2 < pattern.length && pattern[i + 2] !== ']') {
      i += pattern[i + 2] === '\\' ? 3 : 2
      ranges.push([first, pattern.charCodeAt(i)])
    } else ranges.push([first, first])
    if (i >= pattern.length) return null
  }
  const has = (code: number) =>
    ranges.some(([low, high]) => code >= low && code <= high) ||
    classes.some((each) => each.test(String.fromCharCode(code)))
  return { set: { isNegated, has }, end: i }
}

/** One ASCII character each, as in git's patterns. */
const characterClasses: Readonly<Record<string, RegExp>> = {
  alnum: /[A-Za-z0-9]/,
  alpha: /[A-Za-z]/,
  blank: /[ \t]/,
  cntrl: /[^ -~\u0080-\uffff]/,
  digit: /[0-9]/,
  graph: /[!-~]/,
  lower: /[a-z]/,
  print: /[ -~]/,
  punct: /[!-/:-@[-`{-~]/,
  space: /[ \t\n\v\f\r]/,
  upper: /[A-Z]/,
  xdigit: /[0-9A-Fa-f]/,
}
