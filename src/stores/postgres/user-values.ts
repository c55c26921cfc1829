// Converts values of user SQL for the driver (docs/guides/sql-values.md).

import { checkSqlValues } from '../../core/store/sql-value.ts'

/** Throws SQL_REFUSED for a value that the driver would store as another. The driver accepts bytes only as a Buffer. */
export function toParameters(values: readonly unknown[]): unknown[] {
  checkSqlValues(values, 'postgres')
  return values.map((value) =>
    value instanceof Uint8Array ? Buffer.from(value.buffer, value.byteOffset, value.byteLength) : value,
  )
}
