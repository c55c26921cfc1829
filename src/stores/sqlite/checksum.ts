// CRC-32, as zlib computes it. Our frames and heads are a few hundred bytes, where the call into zlib costs more than the
// work: those are done here, longer ones there.

import { crc32 } from 'node:zlib'

const shortBytes = 512
const table = Int32Array.from({ length: 256 }, (_, byte) => {
  let value = byte
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1
  return value
})
/** Four bytes at a time: what a byte does to the checksum one, two and three bytes later. */
const table1 = table.map((value) => (value >>> 8) ^ table[value & 0xff]!)
const table2 = table1.map((value) => (value >>> 8) ^ table[value & 0xff]!)
const table3 = table2.map((value) => (value >>> 8) ^ table[value & 0xff]!)

/** Of bytes[start, end), going on from `seed` (the checksum of what came before; any number serves as a salt). */
export function checksum(bytes: Uint8Array, start: number, end: number, seed: number): number {
  if (end - start > shortBytes) return crc32(bytes.subarray(start, end), seed >>> 0)
  let crc = ~seed
  let i = start
  for (; i + 4 <= end; i += 4) {
    crc ^= bytes[i]! | (bytes[i + 1]! << 8) | (bytes[i + 2]! << 16) | (bytes[i + 3]! << 24)
    crc = table3[crc & 0xff]! ^ table2[(crc >>> 8) & 0xff]! ^ table1[(crc >>> 16) & 0xff]! ^ table[crc >>> 24]!
  }
  for (; i < end; i++) crc = (crc >>> 8) ^ table[(crc ^ bytes[i]!) & 0xff]!
  return ~crc >>> 0
}
