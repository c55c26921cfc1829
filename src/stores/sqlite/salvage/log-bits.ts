// Corrects one flipped bit in a row of the log. A checksum of 32 bits identifies the bit: the change of the checksum depends
// only on the distance of the bit from the end of the checked bytes, and each distance changes it differently. So a row needs
// no second copy. The checksums of an unsettled row start from its time, so a bit of the time may change them like a bit of
// the first frame: all possible rows are returned, and their neighbours decide (row-neighbours.ts).

import { ByteReader, integerSize } from '../../../core/bytes.ts'
import { RepriseError } from '../../../core/errors.ts'
import { checksum, table } from '../file/checksum.ts'
import { frameSeed, isWhole } from '../log/log-row.ts'

const crcBytes = 4
/** The kind of a row, its mark or time, and the size of its first frame. */
const startBytes = 16
const sizeBytesMax = 8

/** Every whole row that differs from this one in a single bit. */
export function wholeRowsNear(position: number, body: Uint8Array): Uint8Array[] {
  const row = body.slice()
  const found = new Map<string, Uint8Array>()
  const note = () => {
    if (isWhole(position, row)) found.set(Buffer.from(row).toString('base64'), row.slice())
  }
  tryBits(row, 0, Math.min(startBytes, row.length), note)
  const seed = frameSeed(position, row)
  for (let at = startOfFrames(row); seed !== null && at < row.length; ) {
    const size = sizeAt(row, at)
    const start = at + (size === null ? 0 : integerSize(size))
    const isFramed = size !== null && size >= crcBytes && start + size <= row.length
    if (!isFramed || !isFrameSound(row, start, size, seed)) {
      if (isFramed && flipBack(row, start, size, seed)) note()
      row.set(body)
      tryBits(row, at, Math.min(at + sizeBytesMax, row.length), note)
      break
    }
    at = start + size
  }
  return [...found.values()]
}

function tryBits(row: Uint8Array, start: number, end: number, note: () => void): void {
  for (let i = start; i < end; i++) {
    for (let bit = 0; bit < 8; bit++) {
      row[i]! ^= 1 << bit
      note()
      row[i]! ^= 1 << bit
    }
  }
}

/** The kind, and a mark of four bytes or a time. */
function startOfFrames(row: Uint8Array): number {
  const unsettled = 12
  if (row[0] !== unsettled) return 1 + crcBytes
  return 1 + integerSize(sizeAt(row, 1) ?? 0)
}

function sizeAt(row: Uint8Array, at: number): number | null {
  try {
    return new ByteReader(row, at).integer()
  } catch (error) {
    if (error instanceof RepriseError) return null
    throw error
  }
}

function isFrameSound(row: Uint8Array, start: number, size: number, seed: number): boolean {
  return syndromeOf(row, start, size, seed) === 0
}

/** The difference between the stored checksum and that of the bytes: 0 if they agree. */
function syndromeOf(row: Uint8Array, start: number, size: number, seed: number): number {
  const stored = new DataView(row.buffer, row.byteOffset + start, crcBytes).getUint32(0, true)
  return (stored ^ checksum(row, start + crcBytes, start + size, seed)) >>> 0
}

/** Returns whether a bit was found. */
function flipBack(row: Uint8Array, start: number, size: number, seed: number): boolean {
  const syndrome = syndromeOf(row, start, size, seed) | 0
  for (let bit = 0; bit < 32; bit++) {
    if (syndrome !== 1 << bit) continue
    row[start + (bit >> 3)]! ^= 1 << (bit & 7)
    return true
  }
  // The contribution of each bit of the last byte, then of the byte before it, and so on.
  const added = Array.from({ length: 8 }, (_, bit) => table[1 << bit]!)
  for (let at = start + size - 1; at >= start + crcBytes; at--) {
    for (let bit = 0; bit < 8; bit++) {
      if (added[bit]! === syndrome) {
        row[at]! ^= 1 << bit
        return true
      }
      added[bit] = (added[bit]! >>> 8) ^ table[added[bit]! & 0xff]!
    }
  }
  return false
}
