// Values of the user's SQL, on the way to SQLite and back (docs/guides/sql-values.md). SQLite has numbers, text, bytes and null;
// the rest goes in as the text or number that people write for it. Integers are read as bigints first: the driver throws
// on one above 2^53, and where it does so in the middle of a list it leaves the connection reading an old state for good.

import type { Connection } from '../file/connection.ts'
import type { SqlRow, SqlValue, Statement } from '../file/driver.ts'

/** A statement of the user's, used once. */
export function userStatement(connection: Connection, text: string): Statement {
  const statement = connection.once(text)
  statement.setReadBigInts(true)
  return statement
}

export function toSqlValue(value: unknown): SqlValue {
  if (typeof value === 'boolean') return value ? 1 : 0
  if (value instanceof Date) return value.toISOString()
  return value === undefined ? null : (value as SqlValue)
}

/** A plain object (drivers give rows without a prototype), with integers as numbers where a number holds them. */
export function fromSqlRow(row: SqlRow): Record<string, unknown> {
  const plain: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(row)) plain[name] = typeof value === 'bigint' ? toInteger(value) : value
  return plain
}

function toInteger(value: bigint): number | bigint {
  const number = Number(value)
  return Number.isSafeInteger(number) ? number : value
}
