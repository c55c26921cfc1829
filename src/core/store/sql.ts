// A query of the user's own tables, on its way to a store. Values never become text: they are bound. Where the text has
// several parts, one value stands between each two, and the store puts its own placeholder there.

import { RepriseError } from '../errors.ts'

export interface SqlQuery {
  readonly parts: readonly string[]
  readonly values: readonly unknown[]
  /** More rows than this are an error: LIMIT_EXCEEDED. */
  readonly rowsMax: number
  /** TIMEOUT beyond it. */
  readonly timeoutMs: number
}

/** @example textOf({ parts: ['SELECT ', ' + ', ''] }, (n) => `$${n}`) // 'SELECT $1 + $2' */
export function textOf({ parts }: Pick<SqlQuery, 'parts'>, placeholder: (number: number) => string): string {
  return parts.reduce((text, part, at) => (at === 0 ? part : text + placeholder(at) + part), '')
}

export function tooManyRows({ rowsMax }: SqlQuery): RepriseError {
  const what = `the query gives more than ${rowsMax} rows: narrow it, or raise limits.sqlRows`
  return new RepriseError('LIMIT_EXCEEDED', what, { rowsMax })
}

export function tookTooLong({ timeoutMs }: SqlQuery): RepriseError {
  const what = `the query took longer than ${timeoutMs} ms: narrow it, or raise limits.sqlMs`
  return new RepriseError('TIMEOUT', what, { timeoutMs })
}

/** The database did not take it: it writes, names something that is not there, or is no SQL. */
export function refusedByDatabase(error: unknown): RepriseError {
  const reason = error instanceof Error ? error.message : String(error)
  return new RepriseError('SQL_REFUSED', `the database refused the query: ${reason}`, {}, error)
}

/** A quick look, for a better message: that nothing is written is the database's own doing. */
export function checkReads(text: string): void {
  const first = text.replace(/^(?:\s|;|\(|--[^\n]*(?:\n|$)|\/\*[\s\S]*?(?:\*\/|$))+/, '')
  if (/^(SELECT|WITH|VALUES)\b/i.test(first)) return
  const word = /^\w+/.exec(first)?.[0]?.toUpperCase() ?? 'nothing'
  throw new RepriseError('SQL_REFUSED', `a query must be SELECT, WITH or VALUES (got ${word}): it only reads`)
}
