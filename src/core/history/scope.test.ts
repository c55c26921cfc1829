// The rule for all comparisons of ids, compared with a slower definition.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { archivedFrom, archiveOf, idBelow, isWithin, liveIdOf, overlaps, rangeOf, scopesOf } from './scope.ts'

/** Few letters, so that ids are often prefixes of each other. */
const segment = fc.string({
  unit: fc.constantFrom('a', 'b', '~', '1', '0', '@', '-', 'é', '🦊'),
  minLength: 1,
  maxLength: 4,
})
const id = fc.array(segment, { minLength: 1, maxLength: 4 }).map((segments) => segments.join('/'))
const scope = fc.oneof(
  fc.constant(''),
  id,
  id.map((text) => `${text}/`),
)

/** Compares segment by segment; archives of the scope's own timeline are recognised by undoing rollbacks. */
function isWithinBySegments(given: string, of: string): boolean {
  if (given === '') return true
  const wanted = given.split('/')
  const isOnlyBelow = wanted.at(-1) === ''
  if (isOnlyBelow) wanted.pop()
  const has = of.split('/')
  const isBelow = has.length > wanted.length && wanted.every((each, i) => each === has[i])
  if (isBelow || isOnlyBelow) return isBelow
  for (let at: string | null = of; at !== null; at = archivedFrom(at)) if (at === given) return true
  return false
}

const byBytes = (a: string, b: string) => Buffer.compare(Buffer.from(a), Buffer.from(b))

describe('a scope', () => {
  it('contains whole segments only: itself, everything below, and its archives', () => {
    const ids = ['save/a', 'save/a/x', 'save/a/x~1', 'save/a~1', 'save/a~12', 'save/a~1~2', 'save/ab', 'save/ab/x']
    const more = ['save/a@1', 'save/a~', 'save/a~x', 'save/a~1x', 'save/a~1/x', 'save/a-b', 'save', 'sav', 'save~1/a']
    const within = (given: string) => [...ids, ...more].filter((each) => isWithin(given, each))
    expect(within('save/a')).toEqual(ids.slice(0, 6))
    expect(within('save/a/')).toEqual(['save/a/x', 'save/a/x~1'])
    expect(within('save/ab')).toEqual(['save/ab', 'save/ab/x'])
    expect(within('save/')).toEqual([...ids, ...more].filter((each) => each.startsWith('save/')))
    expect(within('sav')).toEqual(['sav'])
    expect(within('')).toEqual([...ids, ...more])
  })

  it('has the same meaning as a comparison by segments, for any ids', () => {
    const related = fc.oneof(
      fc.tuple(scope, id),
      fc.tuple(id, segment).map(([text, tail]): [string, string] => [text, text + tail]),
      fc.tuple(id, segment).map(([text, tail]): [string, string] => [text, `${text}/${tail}`]),
      fc
        .tuple(id, fc.array(fc.nat(30), { minLength: 1, maxLength: 3 }))
        .map(([text, numbers]): [string, string] => [text, numbers.reduce<string>(archiveOf, text)]),
    )
    fc.assert(
      fc.property(related, ([given, of]) => {
        expect(isWithin(given, of)).toBe(isWithinBySegments(given, of))
      }),
      { numRuns: 5000 },
    )
  })

  it('is found from every id that it holds, the narrowest first', () => {
    expect([...scopesOf('a/b/c~1')]).toEqual(['a/b/c~1', 'a/b/c', 'a/b/', 'a/b', 'a/', 'a', ''])
    fc.assert(
      fc.property(id, fc.array(scope, { maxLength: 30 }), (of, scopes) => {
        const found = [...scopesOf(of)]
        expect(found.map((each) => each.length)).toEqual(found.map((each) => each.length).sort((a, b) => b - a))
        for (const each of [...scopes, ...found]) expect(found.includes(each)).toBe(isWithin(each, of))
      }),
    )
  })

  it('lies in one range of the order of ids', () => {
    fc.assert(
      fc.property(scope, fc.array(id, { maxLength: 30 }), (given, ids) => {
        const { from, to } = rangeOf(given)
        for (const each of ids) {
          const isInRange = byBytes(each, from) >= 0 && (to === null || byBytes(each, to) < 0)
          if (isWithin(given, each)) expect(isInRange).toBe(true)
          if (given.endsWith('/')) expect(isInRange).toBe(isWithin(given, each))
        }
      }),
    )
  })

  it('overlaps another exactly if one of the two holds the other', () => {
    expect(overlaps('job/', 'job/mailer')).toBe(true)
    expect(overlaps('', 'job/mailer')).toBe(true)
    expect(overlaps('job/mailer/3', 'job/mailer')).toBe(true)
    expect(overlaps('job/mailer2', 'job/mailer')).toBe(false)
  })
})

describe('an archive', () => {
  it('is named after the id it was rolled back from, and leads back to it', () => {
    fc.assert(
      fc.property(id, fc.array(fc.nat(100), { minLength: 1, maxLength: 3 }), (text, numbers) => {
        const archive = numbers.reduce<string>(archiveOf, text)
        expect(isWithin(text, archive)).toBe(true)
        expect(archivedFrom(archiveOf(text, 3))).toBe(text)
        expect(liveIdOf(archive)).toBe(liveIdOf(text))
      }),
    )
    expect([archivedFrom('a'), archivedFrom('a~'), archivedFrom('~1'), archivedFrom('a~1/b')]).toEqual(
      Array(4).fill(null),
    )
  })
})

describe('the part of an id below a scope', () => {
  it('is the rest of it, by whole segments', () => {
    expect(idBelow('agent/guide/', 'agent/guide/ann')).toBe('ann')
    expect(idBelow('agent/guide', 'agent/guide/ann/x')).toBe('ann/x')
    expect(idBelow('agent/guide', 'agent/guides/ann')).toBeNull()
    expect(idBelow('agent/guide', 'agent/guide')).toBeNull()
    expect(idBelow('', 'a/b')).toBe('a/b')
  })

  it('has a range that ends behind every id below it, whatever its letters', () => {
    expect(rangeOf('job/')).toEqual({ from: 'job/', to: 'job0' })
    expect(['job/a', 'job/\u00fcber', 'job/\u{1f600}'].every((id) => id >= 'job/' && id < 'job0')).toBe(true)
    expect(rangeOf('save/a')).toEqual({ from: 'save/a', to: 'save/a\x7f' })
  })
})
