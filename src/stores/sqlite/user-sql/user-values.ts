// Converts values of user SQL to and from SQLite (docs/guides/sql-values.md). SQLite has numbers, text, bytes and null; other
// values are stored as the text or number that people write for them. Integers are first read as bigints: the driver throws on
// one above 2^53, and if it does so in the middle of a list, the connection reads an old state from then on.

import { checkSqlValues } from '../../../core/store/sql-value.ts'
import type { Connection } from '../file/connection.ts'
import type { SqlRow, SqlValue, Statement } from '../file/driver.ts'

/** A user's statement, used once. */
export function userStatement(connection: Connection, text: string): Statement {
  const statement = connection.once(text)
  statement.setReadBigInts(true)
  return statement
}

/** Throws SQL_REFUSED for a value that SQLite has no type for. */
export function toSqlValues(values: readonly unknown[]): SqlValue[] {
  checkSqlValues(values, 'sqlite')
  return values.map(toSqlValue)
}

function toSqlValue(value: unknown): SqlValue {
  if (typeof value === 'boolean') return value ? 1 : 0
  if (value instanceof Date) return value.toISOString()
  return value === undefined ? null : (value as SqlValue)
}

/** A plain object (drivers return rows without a prototype), with integers as numbers where they fit. */
export function fromSqlRow(row: SqlRow): Record<string, unknown> {
  const plain: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(row)) plain[name] = toInteger(value)
  return plain
}

/** The same for a row as a list. */
export function fromSqlList(row: readonly SqlValue[]): unknown[] {
  return row.map(toInteger)
}

function toInteger(value: SqlValue): SqlValue {
  if (typeof value !== 'bigint') return value
  const number = Number(value)
  return Number.isSafeInteger(number) ? number : value
}
