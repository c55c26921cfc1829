// CRC-32, as in zlib. Frames and heads have a few hundred bytes, where a call into zlib costs more than the work, so short
// inputs are computed here and longer ones in zlib.

import { crc32 } from 'node:zlib'

const shortBytes = 320
/** The contribution of one byte. */
export const table = Int32Array.from({ length: 256 }, (_, byte) => {
  let value = byte
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1
  return value
})
/** For eight bytes at a time: the effect of a byte on the checksum one to seven bytes later. */
const table1 = later(table)
const table2 = later(table1)
const table3 = later(table2)
const table4 = later(table3)
const table5 = later(table4)
const table6 = later(table5)
const table7 = later(table6)

function later(before: Int32Array): Int32Array {
  return before.map((value) => (value >>> 8) ^ table[value & 0xff]!)
}

/** The checksum of bytes[start, end), continued from `seed` (the checksum of earlier bytes; any number serves as a salt). */
export function checksum(bytes: Uint8Array, start: number, end: number, seed: number): number {
  if (end - start > shortBytes) return crc32(bytes.subarray(start, end), seed >>> 0)
  let crc = ~seed
  let i = start
  for (; i + 8 <= end; i += 8) {
    crc ^= bytes[i]! | (bytes[i + 1]! << 8) | (bytes[i + 2]! << 16) | (bytes[i + 3]! << 24)
    crc =
      table7[crc & 0xff]! ^
      table6[(crc >>> 8) & 0xff]! ^
      table5[(crc >>> 16) & 0xff]! ^
      table4[crc >>> 24]! ^
      table3[bytes[i + 4]!]! ^
      table2[bytes[i + 5]!]! ^
      table1[bytes[i + 6]!]! ^
      table[bytes[i + 7]!]!
  }
  for (; i < end; i++) crc = (crc >>> 8) ^ table[(crc ^ bytes[i]!) & 0xff]!
  return ~crc >>> 0
}
