// The checks that query builders over the SQL of a commit share (reprise/kysely, reprise/drizzle, reprise/prisma).

import { RepriseError } from '../errors.ts'
import type { Sql } from './commit-request.ts'

/** Throws INVALID_ARGUMENT if the value is not the SQL of a commit, STORE_UNSUPPORTED if its store has no database. */
export function sqlDialect(sql: Sql, name: string): 'postgres' | 'sqlite' {
  const given = sql as Partial<Sql> | null | undefined
  const isSql = typeof given?.run === 'function' && typeof given.all === 'function'
  if (!isSql) {
    const what = `${name}() needs the SQL of a commit: the first argument of ctx.transaction, ctx.commit or a SQL handler`
    throw new RepriseError('INVALID_ARGUMENT', what, { given: given === null ? 'null' : typeof given })
  }
  const { dialect } = sql
  if (dialect === 'postgres' || dialect === 'sqlite') return dialect
  throw new RepriseError('STORE_UNSUPPORTED', `${name}() needs a sqlite: or postgres: store`, { dialect })
}

/** The error for a transaction that a query builder would begin inside the commit's. */
export function transactionInside(name: string): RepriseError {
  const what = `${name}: the statements already run in the transaction of the commit, and no other can begin in it`
  return new RepriseError('SQL_REFUSED', what)
}
