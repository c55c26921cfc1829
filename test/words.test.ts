// The table of words in ARCHITECTURE.md: what was renamed is gone from the sources, and each word has one meaning.

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

function identifiers(): Map<string, string> {
  const found = new Map<string, string>()
  const paths = readdirSync(`${root}src`, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.ts'))
  for (const path of paths) {
    for (const { kind, text, line } of tokenize(readFileSync(`${root}src/${path}`, 'utf8'))) {
      if (kind === 'word') found.set(text.replace(/^[#@]/, ''), `src/${path}:${line}`)
    }
  }
  return found
}

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
