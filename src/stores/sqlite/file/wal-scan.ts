// Scans SQLite's write-ahead log before SQLite does. SQLite treats a frame with a wrong checksum as the end of the log and
// silently drops everything after it; that is right for a torn tail and wrong for a flipped bit.
//
// Format (sqlite.org/fileformat2.html, section 4): a header of 32 bytes (magic, version, page size, sequence, two salts,
// checksum), then frames of 24 bytes and a page (page number, database size if it commits, the salts, running checksum).
//
// The two cases differ as follows: a transaction is synced before the next one starts, so a bad frame with two later commits,
// or a bad header with any, was in synced data. With one later commit it may be the torn tail of a power loss: the mark beside
// the file shows whether that commit had been acknowledged (ack-mark.ts).

import { closeSync, fstatSync, openSync, readSync } from 'node:fs'

const headerBytes = 32
const frameHeaderBytes = 24
const bufferBytes = 1 << 20

export interface WalFault {
  readonly frame: number
  readonly commitsBehind: number
}

/** Null: the log is whole, or there is none. While another process writes, only a repeatable finding is a fault. */
export function scanWal(databaseFile: string): WalFault | null {
  let fault = scanOnce(`${databaseFile}-wal`)
  for (let look = 0; fault && look < 2; look++) {
    const again = scanOnce(`${databaseFile}-wal`)
    if (again?.frame !== fault.frame || again.salts !== fault.salts) return again ? scanWal(databaseFile) : null
    fault = again
  }
  return fault && { frame: fault.frame, commitsBehind: fault.commitsBehind }
}

interface Finding extends WalFault {
  readonly salts: string
}

function scanOnce(file: string): Finding | null {
  let handle: number
  try {
    handle = openSync(file, 'r')
  } catch {
    return null
  }
  try {
    return scanFrames(handle)
  } finally {
    closeSync(handle)
  }
}

function scanFrames(handle: number): Finding | null {
  const header = readAt(handle, 0, headerBytes)
  const size = fstatSync(handle).size
  if (header.length < headerBytes) return null
  const sum = new Checksum(header.getUint32(0) % 2 === 1)
  sum.add(header.bytes, 0, 24)
  const isHeaderGood = isMagic(header.getUint32(0)) && sum.equals(header.getUint32(24), header.getUint32(28))
  const pageBytes = toPageBytes(header.getUint32(8))
  const frameBytes = frameHeaderBytes + pageBytes
  const first = readAt(handle, headerBytes, frameHeaderBytes)
  if (!isHeaderGood && first.length < frameHeaderBytes) return null
  const salts = isHeaderGood ? saltsAt(header, 16) : saltsAt(first, 8)
  let badFrame = isHeaderGood ? -1 : 0
  let commitsBehind = 0
  for (const { frame, index } of framesOf(handle, size, frameBytes)) {
    const isOfThisLog = saltsAt(frame, 8) === salts
    if (badFrame < 0) {
      sum.add(frame.bytes, 0, 8)
      sum.add(frame.bytes, frameHeaderBytes, pageBytes)
      if (isOfThisLog && sum.equals(frame.getUint32(16), frame.getUint32(20))) continue
      badFrame = index
    }
    if (isOfThisLog && frame.getUint32(4) !== 0) commitsBehind += 1
  }
  const isFault = badFrame >= 0 && commitsBehind >= (isHeaderGood ? 2 : 1)
  return isFault ? { frame: badFrame, commitsBehind, salts } : null
}

function isMagic(value: number): boolean {
  return value === 0x377f0682 || value === 0x377f0683
}

/** A frame of the log as stored, whether or not the frames before it are intact. */
export interface WalFrame {
  readonly page: number
  /** The pages of the file after this transaction; 0: the transaction continues. */
  readonly pagesAfter: number
  readonly content: Uint8Array
  /** The checksum is right. It continues from the stored one before it, so one bad frame leaves the next one sound. */
  readonly isSound: boolean
}

/** Every frame of the current cycle of the log. */
export function* readWal(databaseFile: string): Generator<WalFrame> {
  const handle = openSync(`${databaseFile}-wal`, 'r')
  try {
    const header = readAt(handle, 0, headerBytes)
    const first = readAt(handle, headerBytes, frameHeaderBytes)
    if (first.length < frameHeaderBytes) return
    const pageBytes = toPageBytes(header.getUint32(8))
    const isBigEndian = isBigEndianAt(handle, pageBytes) ?? header.getUint32(0) % 2 === 1
    const salts = saltsAt(first, 8)
    let before: readonly [number, number] = [header.getUint32(24), header.getUint32(28)]
    for (const { frame } of framesOf(handle, fstatSync(handle).size, frameHeaderBytes + pageBytes)) {
      if (saltsAt(frame, 8) !== salts) return
      const sum = new Checksum(isBigEndian, before)
      sum.add(frame.bytes, 0, 8)
      sum.add(frame.bytes, frameHeaderBytes, pageBytes)
      before = [frame.getUint32(16), frame.getUint32(20)]
      const content = frame.bytes.subarray(frameHeaderBytes)
      const isSound = sum.equals(...before)
      yield { page: frame.getUint32(0), pagesAfter: frame.getUint32(4), content, isSound }
    }
  } finally {
    closeSync(handle)
  }
}

/** Uses the second frame, which depends on the first and not on the header; null: unknown. */
function isBigEndianAt(handle: number, pageBytes: number): boolean | null {
  const frameBytes = frameHeaderBytes + pageBytes
  const both = readAt(handle, headerBytes, 2 * frameBytes)
  if (both.length < 2 * frameBytes) return null
  const second = both.part(frameBytes, frameBytes)
  const found = [false, true].find((isBigEndian) => {
    const sum = new Checksum(isBigEndian, [both.getUint32(16), both.getUint32(20)])
    sum.add(second.bytes, 0, 8)
    sum.add(second.bytes, frameHeaderBytes, pageBytes)
    return sum.equals(second.getUint32(16), second.getUint32(20))
  })
  return found ?? null
}

/** A damaged header may contain anything: the default page size is then the best guess. */
function toPageBytes(value: number): number {
  const isPowerOfTwo = (value & (value - 1)) === 0
  return isPowerOfTwo && value >= 512 && value <= 65536 ? value : 4096
}

function saltsAt(view: View, offset: number): string {
  return `${view.getUint32(offset)}/${view.getUint32(offset + 4)}`
}

function* framesOf(handle: number, size: number, frameBytes: number): Generator<{ frame: View; index: number }> {
  const perRead = Math.max(1, Math.floor(bufferBytes / frameBytes))
  for (let index = 0; headerBytes + (index + 1) * frameBytes <= size; ) {
    const block = readAt(handle, headerBytes + index * frameBytes, perRead * frameBytes)
    const count = Math.floor(block.length / frameBytes)
    if (count === 0) return
    for (let i = 0; i < count; i++) yield { frame: block.part(i * frameBytes, frameBytes), index: index + i }
    index += count
  }
}

/** Big-endian integers over some bytes. */
class View {
  readonly bytes: Uint8Array
  readonly #view: DataView

  constructor(bytes: Uint8Array) {
    this.bytes = bytes
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  }

  get length(): number {
    return this.bytes.length
  }

  getUint32(offset: number): number {
    return this.#view.getUint32(offset)
  }

  part(offset: number, length: number): View {
    return new View(this.bytes.subarray(offset, offset + length))
  }
}

function readAt(handle: number, offset: number, length: number): View {
  const bytes = new Uint8Array(length)
  let count = 0
  while (count < length) {
    const got = readSync(handle, bytes, count, length - count, offset + count)
    if (got === 0) break
    count += got
  }
  return new View(bytes.subarray(0, count))
}

/** The running checksum of the log, over pairs of 32-bit words. */
export class Checksum {
  readonly #isBigEndian: boolean
  #first: number
  #second: number

  constructor(isBigEndian: boolean, [first, second]: readonly [number, number] = [0, 0]) {
    this.#isBigEndian = isBigEndian
    this.#first = first | 0
    this.#second = second | 0
  }

  add(bytes: Uint8Array, offset: number, length: number): void {
    const view = new DataView(bytes.buffer, bytes.byteOffset + offset, length)
    const isLittleEndian = !this.#isBigEndian
    let first = this.#first
    let second = this.#second
    for (let i = 0; i < length; i += 8) {
      first = (first + view.getUint32(i, isLittleEndian) + second) | 0
      second = (second + view.getUint32(i + 4, isLittleEndian) + first) | 0
    }
    this.#first = first
    this.#second = second
  }

  equals(first: number, second: number): boolean {
    return this.#first >>> 0 === first && this.#second >>> 0 === second
  }
}
