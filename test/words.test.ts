// The table of words in ARCHITECTURE.md: renamed words are gone from the sources, and each word has one meaning. Also the texts
// for people: requirements use "must", and removed phrases do not return.

import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { tokenize } from '../scripts/tokens.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const architecture = readFileSync(`${root}ARCHITECTURE.md`, 'utf8')
const rows = [...architecture.matchAll(/^\| `(\w+)` \| `(\w+)` \| (.+) \|$/gm)].map(([, before, now, meaning]) => ({
  before: before!,
  now: now!,
  meaning: meaning!,
}))

const tokens = readdirSync(`${root}src`, { recursive: true, encoding: 'utf8' })
  .filter((path) => path.endsWith('.ts'))
  .flatMap((path) => {
    const source = readFileSync(`${root}src/${path}`, 'utf8')
    return tokenize(source).map((token) => ({ ...token, path, at: `src/${path}:${token.line}` }))
  })

function identifiers(): Map<string, string> {
  const words = tokens.filter(({ kind }) => kind === 'word')
  return new Map(words.map(({ text, at }) => [text.replace(/^[#@]/, ''), at]))
}

/** Each of these phrases has a better form, given behind it. */
const phrases: readonly (readonly [RegExp, string])[] = [
  [/\bfrom [01] on\b/, 'must be a whole number of at least 1'],
  [/\bis (a|an) (whole number|integer|string|text|duration)\b|\bis [01] or more\b/, 'must be …'],
  [/(?<!must )\b(has|have) (1 to|at least|at most)\b/, 'must have …'],
  [/\bmust be (given|said)\b/, 'is required'],
  [/\b(rider|rides|rode|ridden)\b/, 'the SQL inside the commit'],
  [/\ball the time\b/, 'keeps writing'],
  [/\bno more$|\bfor ever\b/, 'no longer; forever'],
  [/\ba (commit|page|byte|row|timeline) a [a-z]+$/, 'one commit per step'],
]

describe('the words of ARCHITECTURE.md', () => {
  it('are read', () => {
    expect(rows.length).toBeGreaterThan(20)
  })

  it('are no longer used where they were renamed, and are where they were renamed to', () => {
    const used = identifiers()
    const old = rows.filter(({ before }) => used.has(before)).map(({ before }) => `${before} in ${used.get(before)}`)
    expect(old).toEqual([])
    expect(rows.filter(({ now }) => !used.has(now)).map(({ now }) => now)).toEqual([])
  })

  it('have one meaning each, and each meaning one word', () => {
    for (const column of ['before', 'now', 'meaning'] as const) {
      const values = rows.map((row) => row[column])
      expect(values.filter((value, i) => values.indexOf(value) !== i)).toEqual([])
    }
    const bold = [...architecture.matchAll(/\*\*([a-z][a-z ]*)\*\*/g)].map(([, word]) => word)
    expect(bold.filter((word, i) => bold.indexOf(word) !== i)).toEqual([])
  })
})

describe('the texts of errors, help and reports', () => {
  const texts = tokens.filter(({ kind, path, text }) => {
    const isProse = (kind === 'string' || kind === 'template') && text.includes(' ')
    return (
      isProse && !path.endsWith('.test.ts') && !/^stores\/\w+\/.*\b(SELECT|INSERT|CREATE)\b/.test(`${path} ${text}`)
    )
  })

  it('are read', () => {
    expect(texts.length).toBeGreaterThan(2000)
  })

  it.each(phrases)('do not use %s: %s', (phrase) => {
    expect(texts.filter(({ text }) => phrase.test(text)).map(({ at, text }) => `${at} ${text}`)).toEqual([])
  })
})

describe('comments and pages', () => {
  /** Per 1,000 lines. The counts only fall: lower the limit together with a count. */
  const habits: readonly (readonly [string, RegExp, number])[] = [
    ['whoever', /\bwhoever\b/gi, 0.05],
    ['nobody, somebody', /\b(?:no|some|every)body\b/gi, 0.1],
    ['what is, as a noun', /\bwhat (?:is|was|are|were)\b/gi, 0.5],
    ['tell', /\b(?:tells?|told)\b/gi, 0.5],
    ['say', /\b(?:says?|said)\b/gi, 0.25],
    ['ask', /\basks? (?:for|again)\b|\basked\b/gi, 0.4],
    ['go on', /\b(?:go|goes|going|went) on\b/gi, 0.1],
    ['is there', /\b(?:is|are|was|were) there\b/gi, 0.1],
    ['left out', /\bleft out\b/gi, 0.15],
    ['under way', /\bunder way\b/gi, 0.3],
    ['is no X', /(?<!\bthere )\b(?:is|was|are|were) no (?!longer\b|more\b|such\b|other\b|one\b|need\b)[a-z]+/gi, 0.3],
  ]
  const isGenerated = (path: string) => path.startsWith('docs/api/') || path === 'docs/errors.md'
  const filesIn = (folder: string, ending: RegExp) =>
    readdirSync(`${root}${folder}`, { recursive: true, encoding: 'utf8' })
      .map((path) => `${folder}/${path.replaceAll('\\', '/')}`)
      .filter((path) => ending.test(path) && !isGenerated(path))
  const lines = [
    ...['src', 'test', 'bench', 'scripts', 'examples', 'dashboard/src']
      .flatMap((folder) => filesIn(folder, /\.(?:tsx?|mjs)$/))
      .flatMap((path) =>
        readFileSync(root + path, 'utf8')
          .split('\n')
          .filter((line) => /^\s*(?:\/\/|\/\*|\*)/.test(line)),
      ),
    ...[...filesIn('docs', /\.md$/), 'README.md', 'ARCHITECTURE.md', 'CHANGELOG.md', 'CONTRIBUTING.md'].flatMap(
      (path) =>
        readFileSync(root + path, 'utf8')
          .split('\n')
          .filter((line) => line.trim() !== ''),
    ),
  ]

  it.each(habits)('use the words of the field: "%s" becomes no more frequent', (_name, pattern, max) => {
    const count = lines.reduce((sum, line) => sum + (line.match(pattern)?.length ?? 0), 0)
    expect((count / lines.length) * 1000).toBeLessThanOrEqual(max)
  })
})
