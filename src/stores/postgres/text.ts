// Text that PostgreSQL cannot store. Its text has no NUL and no lone surrogates, but text of Reprise may (attributes, kinds,
// labels): such text is escaped with backslashes, reversibly, and equal text stays equal. Timeline ids never need it.
//   \ → \\    NUL → \0    lone surrogate U+D8AB → \uD8AB

import { RepriseError } from '../../core/errors.ts'
import type { Attribute } from '../../core/store/ports.ts'

const loneSurrogate = '[\\ud800-\\udbff](?![\\udc00-\\udfff])|(?<![\\ud800-\\udbff])[\\udc00-\\udfff]'
const unstorable = new RegExp(`\\0|${loneSurrogate}`)
/** A quick check: most text has none of these characters. */
const mayNeedEscape = /[\0\\\ud800-\udfff]/
const toEscape = new RegExp(`[\\0\\\\]|${loneSurrogate}`, 'g')
const escaped = /\\(?:\\|0|u([0-9a-f]{4}))/g

/** @example escapeText('a\0') // 'a\\0' */
export function escapeText(text: string): string {
  if (!mayNeedEscape.test(text)) return text
  return text.replace(toEscape, (found) => {
    if (found === '\\') return '\\\\'
    return found === '\0' ? '\\0' : `\\u${found.charCodeAt(0).toString(16)}`
  })
}

export function unescapeText(text: string): string {
  if (!text.includes('\\')) return text
  return text.replace(escaped, (found, code: string | undefined) => {
    if (code !== undefined) return String.fromCharCode(Number.parseInt(code, 16))
    return found === '\\0' ? '\0' : '\\'
  })
}

/** Ids and prefixes are stored unescaped; one that cannot be stored matches nothing. */
export function isStorable(text: string): boolean {
  return !mayNeedEscape.test(text) || !unstorable.test(text)
}

export function checkId(text: string): string {
  if (!isStorable(text))
    throw new RepriseError('INVALID_ID', 'the id of a timeline must not contain NUL or half of a surrogate pair')
  return text
}

/** An array in PostgreSQL's text form, which is faster than the driver's. */
export function arrayOfTexts(values: readonly (string | null)[]): string {
  return `{${values.map((value) => (value === null ? 'NULL' : quoted(value))).join(',')}}`
}

function quoted(text: string): string {
  return `"${/["\\]/.test(text) ? text.replace(/["\\]/g, '\\$&') : text}"`
}

type StoredAttribute = Attribute | { readonly n: string }

/** Numbers without a JSON form are encoded as { n: 'NaN' }. */
export function escapeAttributes(attributes: Readonly<Record<string, Attribute>>): Record<string, StoredAttribute> {
  return Object.fromEntries(Object.entries(attributes).map(([key, value]) => [escapeText(key), escapeAttribute(value)]))
}

export function escapeAttribute(value: Attribute): StoredAttribute {
  if (typeof value === 'string') return escapeText(value)
  if (typeof value === 'number' && !Number.isFinite(value)) return { n: String(value) }
  if (Object.is(value, -0)) return { n: '-0' }
  return value
}

export function unescapeAttributes(stored: Readonly<Record<string, StoredAttribute>>): Record<string, Attribute> {
  return Object.fromEntries(
    Object.entries(stored).map(([key, value]) => [
      unescapeText(key),
      typeof value === 'string' ? unescapeText(value) : typeof value === 'object' ? Number(value.n) : value,
    ]),
  )
}
