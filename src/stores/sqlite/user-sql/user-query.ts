// Queries of user tables, on the read-only connection: SQLite itself refuses writes. The time limit is checked between two
// rows; a single step of SQLite cannot be interrupted.

import {
  checkReads,
  refusedByDatabase,
  type SqlQuery,
  textOf,
  tookTooLong,
  tooManyRows,
} from '../../../core/store/sql.ts'
import { withStatement } from '../../../core/store/sql-error.ts'
import type { Connection } from '../file/connection.ts'
import { isBusy } from '../file/failure.ts'
import { oneStatement, refused } from './sql-text.ts'
import { reservedName } from './transaction-sql.ts'
import { fromSqlRow, toSqlValues, userStatement } from './user-values.ts'

export function queryUser(connection: Connection, query: SqlQuery): Record<string, unknown>[] {
  const text = textOf(query, (number) => `?${number}`)
  checkReads(text)
  oneStatement(text)
  const table = reservedName(text)
  if (table) throw refused(`${table} is reserved: names with reprise_ belong to the store`)
  const until = performance.now() + query.timeoutMs
  const rows: Record<string, unknown>[] = []
  try {
    for (const row of userStatement(connection, text).iterate(...toSqlValues(query.values))) {
      if (rows.length === query.rowsMax) throw tooManyRows(query)
      if (performance.now() > until) throw tookTooLong(query)
      rows.push(fromSqlRow(row))
    }
  } catch (error) {
    if (isBusy(error)) throw error
    throw refusedUnlessOurs(error, text)
  }
  return rows
}

function refusedUnlessOurs(error: unknown, text: string): unknown {
  return (error as { name?: string }).name === 'RepriseError' ? error : refusedByDatabase(withStatement(error, text))
}
