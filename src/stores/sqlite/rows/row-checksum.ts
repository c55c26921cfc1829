// SQLite's pages have no checksum, so our rows have their own. A row that does not match its checksum is damaged and never used.

import { crc32 } from 'node:zlib'
import { table } from '../file/checksum.ts'
import type { SqlRow, SqlValue } from '../file/driver.ts'
import { damaged } from '../file/failure.ts'

/** @example checksumOf(['a', 1, null]) */
export function checksumOf(values: readonly SqlValue[]): number {
  let rest = ~0
  for (const value of values) {
    // An array per text, and a call into zlib, would cost more than the work: rows are written with every commit of a run.
    const next =
      value === null
        ? after(rest, 'n')
        : typeof value === 'string'
          ? afterSized(rest, 's', value)
          : value instanceof Uint8Array
            ? notAscii
            : afterSized(rest, 'd', String(value))
    if (next === notAscii) return checksumOfAny(values)
    rest = next
  }
  return ~rest >>> 0
}

/** No checksum: a 32-bit number is never this large. */
const notAscii = 2 ** 40

function afterSized(rest: number, kind: string, text: string): number {
  return after(after(after(after(rest, kind), String(text.length)), ':'), text)
}

/** The checksum continued over an ASCII text, whose UTF-8 bytes are its characters. */
function after(before: number, text: string): number {
  if (before === notAscii) return notAscii
  let rest = before
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code > 127) return notAscii
    rest = (rest >>> 8) ^ table[(rest ^ code) & 0xff]!
  }
  return rest
}

function checksumOfAny(values: readonly SqlValue[]): number {
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
