import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { fromPosition, toPosition } from './feed.ts'
import { toNumbered } from './placeholder.ts'
import { escapeAttributes, escapeText, isStorable, unescapeAttributes, unescapeText } from './text.ts'

/** Any sequence of UTF-16 units, with NUL, backslashes and halves of surrogate pairs more often than by chance. */
const anyText = fc
  .array(fc.oneof(fc.integer({ min: 0, max: 0xffff }), fc.constantFrom(0, 0x5c, 0xd83d, 0xde00, 0x30, 0x75)))
  .map((units) => String.fromCharCode(...units))

describe('escaped text', () => {
  it('comes back as it was, and PostgreSQL can hold it', () => {
    fc.assert(
      fc.property(anyText, (text) => {
        expect(isStorable(escapeText(text))).toBe(true)
        expect(unescapeText(escapeText(text))).toBe(text)
      }),
    )
  })

  it('is equal only for equal text', () => {
    fc.assert(fc.property(anyText, anyText, (a, b) => (escapeText(a) === escapeText(b)) === (a === b)))
  })

  it('leaves ordinary text alone', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), (text) => {
        fc.pre(!text.includes('\\') && !text.includes('\0'))
        expect(escapeText(text)).toBe(text)
      }),
    )
  })

  it('keeps attributes whole: keys, texts, and numbers that JSON does not have', () => {
    const value = fc.oneof(anyText, fc.double(), fc.boolean())
    fc.assert(
      fc.property(fc.dictionary(anyText, value), (attributes) => {
        const stored = JSON.parse(JSON.stringify(escapeAttributes(attributes)))
        expect(Object.entries(unescapeAttributes(stored)).sort()).toEqual(Object.entries(attributes).sort())
      }),
    )
  })
})

describe('placeholders', () => {
  it.each([
    ['INSERT INTO t VALUES (?, ?)', 'INSERT INTO t VALUES ($1, $2)'],
    ['SELECT \'?\', "?", ? -- ?\n, ? /* ? */', 'SELECT \'?\', "?", $1 -- ?\n, $2 /* ? */'],
    ["SELECT 'it''s ?', ?", "SELECT 'it''s ?', $1"],
    ["SELECT E'it\\'s ?', ?", "SELECT E'it\\'s ?', $1"],
    ['SELECT $body$ ? $body$, $$ ? $$, ?', 'SELECT $body$ ? $body$, $$ ? $$, $1'],
    ['SELECT a ?? $2', 'SELECT a ?? $2'],
    ['SELECT a ?? ?', 'SELECT a ? $1'],
    ["SELECT $1, '?' WHERE a ? 'b'", "SELECT $1, '?' WHERE a ? 'b'"],
    ['SELECT 1', 'SELECT 1'],
  ])('%s', (given, expected) => {
    expect(toNumbered(given)).toBe(expected)
  })

  it('are none where there are no values: ? is the operator', () => {
    expect(toNumbered("SELECT a ? 'k', b ?? 'k', '??'", false)).toBe("SELECT a ? 'k', b ? 'k', '??'")
  })
})

describe('positions in the feed', () => {
  const place = fc.record({ pos: fc.nat(2 ** 31 - 1), id: fc.nat(2 ** 31 - 1) })

  it('come back as they were, and compare as text like their parts', () => {
    fc.assert(
      fc.property(place, place, (a, b) => {
        expect(fromPosition(toPosition(a))).toEqual(a)
        const order = a.pos - b.pos || a.id - b.id
        expect(Math.sign(order)).toBe(toPosition(a) === toPosition(b) ? 0 : toPosition(a) < toPosition(b) ? -1 : 1)
      }),
    )
  })

  it.each(['1', '0000000000000001', '0000000000000001-1', 'x', "' OR 1"])('refuse %s', (text) => {
    expect(() => fromPosition(text)).toThrowError(expect.objectContaining({ code: 'INVALID_ARGUMENT' }))
  })
})
