// SQLite's pages have no checksum, so our rows have their own. A row that does not match its checksum is damaged and never used.

import { crc32 } from 'node:zlib'
import type { SqlRow, SqlValue } from '../file/driver.ts'
import { damaged } from '../file/failure.ts'

/** @example checksumOf(['a', 1, null]) */
export function checksumOf(values: readonly SqlValue[]): number {
  let crc = 0
  // The checksum of consecutive texts is that of their concatenation: one call covers them all.
  let text = ''
  for (const value of values) {
    if (value instanceof Uint8Array) {
      crc = crc32(`${text}b${value.length}:`, crc)
      text = ''
      // zlib returns 0 for an empty array without a buffer, regardless of the seed.
      if (value.length > 0) crc = crc32(value, crc)
    } else if (value === null) text += 'n'
    else if (typeof value === 'string') text += `s${value.length}:${value}`
    else {
      const digits = String(value)
      text += `d${digits.length}:${digits}`
    }
  }
  return text === '' ? crc : crc32(text, crc)
}

/** Checks that the row is unchanged: `columns` in the order of the checksum. */
export function checkRow(row: SqlRow, columns: readonly string[], where: string): void {
  if (!isIntact(row, columns)) throw damaged(`${where} does not match its checksum`, { where })
}

/** A missing column is damage to the schema: it was never written as null. */
export function isIntact(row: SqlRow, columns: readonly string[]): boolean {
  const values: SqlValue[] = []
  for (const column of columns) {
    const value = row[column]
    if (value === undefined) return false
    values.push(value)
  }
  return checksumOf(values) === row.crc
}
