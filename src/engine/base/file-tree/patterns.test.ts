// Compares the .gitignore matcher with a brute-force reference, and runs patterns made to take forever.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isMatchedBy, parsePatterns } from './patterns.ts'

/** By definition, one character at a time, trying every way: correct, and far too slow for long texts. */
function matches(pattern: string, text: string): boolean {
  if (pattern === '') return text === ''
  if (pattern.startsWith('**/')) {
    const slashes = [...text].flatMap((each, i) => (each === '/' ? [i] : []))
    return [-1, ...slashes].some((i) => matches(pattern.slice(3), text.slice(i + 1)))
  }
  if (pattern === '**') return text !== ''
  if (pattern[0] === '*') {
    const rest = pattern.replace(/^\*+/, '')
    for (let i = 0; i <= text.length; i++) {
      if (matches(rest, text.slice(i))) return true
      if (text[i] === '/') return false
    }
    return false
  }
  if (text === '') return false
  if (pattern[0] === '?') return text[0] !== '/' && matches(pattern.slice(1), text.slice(1))
  return pattern[0] === text[0] && matches(pattern.slice(1), text.slice(1))
}

function isIgnoredByDefinition(pattern: string, path: string): boolean {
  const isAnchored = pattern.includes('/')
  const plain = pattern.startsWith('/') ? pattern.slice(1) : pattern
  return matches(isAnchored ? plain : `**/${plain}`, path)
}

describe('patterns of .gitignore', () => {
  const name = fc.stringMatching(/^[ab]{1,5}$/)
  const path = fc.array(name, { minLength: 1, maxLength: 4 }).map((names) => names.join('/'))
  const part = fc.oneof(fc.stringMatching(/^[ab*?]{1,6}$/), fc.constant('**'))
  const pattern = fc
    .tuple(fc.constantFrom('', '/'), fc.array(part, { minLength: 1, maxLength: 4 }))
    .map(([start, parts]) => start + parts.join('/'))
    // "**" next to other characters is one star; a segment of its own at the start or in the middle matches folders.
    .filter((each) => !each.split('/').some((one) => one.includes('**') && one !== '**') && each !== '**')

  it('match according to the definition', () => {
    fc.assert(
      fc.property(pattern, path, (one, each) => {
        expect(isMatchedBy(parsePatterns(one), each, false) ?? false).toBe(isIgnoredByDefinition(one, each))
      }),
      { numRuns: 5000 },
    )
  })

  // Each took minutes or longer with a pattern compiled to a regular expression.
  it.each([
    ['stars in a name', `${'*a'.repeat(40)}b`, 'a'.repeat(200)],
    ['stars in a long name', `${'*a'.repeat(500)}b`, 'a'.repeat(4000)],
    ['folders', `${'**/a/'.repeat(30)}b`, `${'a/'.repeat(120)}c`],
    ['folders and stars', `${'**/*a*a*/'.repeat(30)}b`, `${'aaaaaaaa/'.repeat(60)}c`],
    ['question marks and stars', `${'*?'.repeat(100)}b`, 'a'.repeat(2000)],
  ])('do not take for ever: %s', (_name, one, each) => {
    expect(isMatchedBy(parsePatterns(one), each, false)).toBeNull()
  })

  it('do not take for ever to parse: spaces', () => {
    const text = `a${' '.repeat(1000)}b\n`.repeat(200)
    expect(isMatchedBy(parsePatterns(text), `a${' '.repeat(1000)}b`, false)).toBe(true)
  })

  it('have bounds: as many and as long as allowed are taken, one more is refused', () => {
    const refused = expect.objectContaining({ code: 'LIMIT_EXCEEDED' })
    expect(parsePatterns('a\n'.repeat(4096))).toHaveLength(4096)
    expect(() => parsePatterns('a\n'.repeat(4097))).toThrow(refused)
    expect(parsePatterns('a'.repeat(1024))).toHaveLength(1)
    expect(() => parsePatterns('a'.repeat(1025))).toThrow(refused)
  })

  it.each([
    ['[ab]', 'a', true],
    ['[!ab]', 'a', null],
    ['[^ab]', 'c', true],
    ['[a-c]x', 'bx', true],
    ['[]a]', ']', true],
    ['[a-]', '-', true],
    ['[\\]]', ']', true],
    ['[[:digit:]]', '7', true],
    ['[[:digit:]]', 'a', null],
    ['[[:nope:]]', 'a', null],
    ['[abc', '[abc', null],
    ['a\\*', 'a*', true],
    ['a\\*', 'ab', null],
    ['a\\', 'a\\', null],
    ['a\\ ', 'a ', true],
    ['a ', 'a', true],
    ['\u{FEFF}a', 'a', true],
    ['a\r', 'a', true],
    ['\\#a', '#a', true],
    ['#a', '#a', null],
    ['*\n!a', 'a', false],
  ])('%j says of %j: %s', (one, each, verdict) => {
    expect(isMatchedBy(parsePatterns(one), each, false)).toBe(verdict)
  })
})
