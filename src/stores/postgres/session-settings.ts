// Settings of a session that change the meaning of a statement or of its result. They are set at connect, so neither a
// role, nor the database, nor the server can change them for our sessions, even while these are open; RESET ALL returns
// to them. Options in the URL come after them and override them. A pooler may accept no settings: then heartbeats detect
// differences.

import { RepriseError } from '../../core/errors.ts'

const settings: Readonly<Record<string, string>> = {
  extra_float_digits: '1',
  bytea_output: 'hex',
  TimeZone: 'UTC',
  DateStyle: 'ISO,MDY',
  IntervalStyle: 'postgres',
  standard_conforming_strings: 'on',
  backslash_quote: 'safe_encoding',
  array_nulls: 'on',
  transform_null_equals: 'off',
  default_transaction_isolation: 'read committed',
  default_transaction_deferrable: 'off',
  lock_timeout: '0',
  idle_in_transaction_session_timeout: '0',
  idle_session_timeout: '0',
}

/** The settings among them that our own statements and the values in history depend on. */
const needed: Readonly<Record<string, RegExp>> = {
  extra_float_digits: /^[1-3]$/,
  DateStyle: /^ISO\b/,
  IntervalStyle: /^postgres$/,
  standard_conforming_strings: /^on$/,
  array_nulls: /^on$/,
  transform_null_equals: /^off$/,
  default_transaction_isolation: /^read committed$/,
}

export interface SessionOptions {
  readonly isReadOnly: boolean
  /** A server that may lose acknowledged commits is accepted. */
  readonly isRelaxed: boolean
}

/** The URL with our settings before its own. */
export function withSettings(text: string, { isReadOnly, isRelaxed }: SessionOptions): string {
  const all = {
    ...settings,
    ...(!isRelaxed && { synchronous_commit: 'on' }),
    default_transaction_read_only: isReadOnly ? 'on' : 'off',
  }
  const given = Object.entries(all).map(([name, value]) => `-c ${name}=${value.replaceAll(' ', '\\ ')}`)
  return withOptions(text, given, 'before')
}

/** For a pooler that accepts none of our settings: the options of the URL, and read-only mode. */
export function withoutSettings(text: string, { isReadOnly }: SessionOptions): string {
  return isReadOnly ? withOptions(text, ['-c default_transaction_read_only=on'], 'after') : text
}

function withOptions(text: string, options: readonly string[], place: 'before' | 'after'): string {
  const url = new URL(text)
  const given = url.searchParams.get('options')
  const all = given ? (place === 'before' ? [...options, given] : [given, ...options]) : options
  url.searchParams.set('options', all.join(' '))
  return url.href
}

/** As a column of a statement that runs anyway. */
export const meaningColumn = `jsonb_build_object(${Object.keys(needed)
  .map((name) => `'${name}', current_setting('${name}')`)
  .join(', ')}) AS meaning`

export type Meaning = Readonly<Record<string, string>>

/** Null: statements have the required meaning. */
export function meaningFailure(meaning: Meaning): RepriseError | null {
  const wrong = Object.entries(meaning).filter(([name, value]) => !needed[name]?.test(value))
  if (wrong.length === 0) return null
  const words = wrong.map(([name, value]) => `${name} is ${value} (needed: ${settings[name]})`)
  return new RepriseError(
    'STORE_UNSUPPORTED',
    `settings of the session change what statements mean: ${words.join(', ')}; set them for the role (ALTER ROLE … SET …), and remove them from the options of the URL`,
    Object.fromEntries(wrong),
  )
}
