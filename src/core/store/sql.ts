// A query of the user's own tables. Values never become text: they are bound. Between each two parts of the text there is
// one value, and the store inserts its own placeholder there.

import { RepriseError } from '../errors.ts'

export interface SqlQuery {
  readonly parts: readonly string[]
  readonly values: readonly unknown[]
  /** A query with more rows fails with LIMIT_EXCEEDED. */
  readonly rowsMax: number
  /** A longer query fails with TIMEOUT. */
  readonly timeoutMs: number
}

/** @example textOf({ parts: ['SELECT ', ' + ', ''] }, (n) => `$${n}`) // 'SELECT $1 + $2' */
export function textOf({ parts }: Pick<SqlQuery, 'parts'>, placeholder: (number: number) => string): string {
  return parts.reduce((text, part, at) => (at === 0 ? part : text + placeholder(at) + part), '')
}

export function tooManyRows({ rowsMax }: SqlQuery): RepriseError {
  const what = `the query returns more than ${rowsMax} rows: narrow it, or raise limits.sqlRows`
  return new RepriseError('LIMIT_EXCEEDED', what, { rowsMax })
}

export function tookTooLong({ timeoutMs }: SqlQuery): RepriseError {
  const what = `the query took longer than ${timeoutMs} ms: narrow it, or raise limits.sqlMs`
  return new RepriseError('TIMEOUT', what, { timeoutMs })
}

/** The database refused the query: it writes, names something that does not exist, or is not SQL. */
export function refusedByDatabase(error: unknown): RepriseError {
  const reason = error instanceof Error ? error.message : String(error)
  return new RepriseError('SQL_REFUSED', `the database refused the query: ${reason}`, {}, error)
}

/** A quick check for a better message: the database itself prevents writes. */
export function checkReads(text: string): void {
  const first = text.replace(/^(?:\s|;|\(|--[^\n]*(?:\n|$)|\/\*[\s\S]*?(?:\*\/|$))+/, '')
  if (/^(SELECT|WITH|VALUES)\b/i.test(first)) return
  const word = /^\w+/.exec(first)?.[0]?.toUpperCase() ?? 'nothing'
  throw new RepriseError('SQL_REFUSED', `a query must be SELECT, WITH or VALUES (got ${word}): it only reads`)
}
