// The header of the index of the write-ahead log (`FILE-shm`), shared by all connections: the committed end of the log. SQLite
// documents it in "WAL-index File Format". It is stored twice and with a checksum, so that a half-written header is detected.
//
//   version(4) unused(4) change(4: counts commits) isInit(1) bigEndian(1) pageBytes(2: 1 is 65536) lastFrame(4) pages(4)
//   sum(8: of the last frame) salts(8: as in the log) check(8: of the 40 bytes before)      all but the salts in the
//   byte order of the machine

import { readSync } from 'node:fs'
import { endianness } from 'node:os'
import { damaged } from '../file/failure.ts'
import { Checksum } from '../file/wal-scan.ts'

export interface WalIndexHead {
  readonly change: number
  readonly pageBytes: number
  readonly lastFrame: number
  readonly pageCount: number
  readonly sum: readonly [number, number]
  readonly salts: string
}

const headBytes = 48
const checkedBytes = 40
const looksMax = 1000

/** Null: there is none yet. The handle stays open: closing it would release SQLite's locks in this process. */
export function readWalIndex(handle: number): WalIndexHead | null {
  for (let look = 0; look < looksMax; look++) {
    const bytes = Buffer.alloc(2 * headBytes)
    if (readSync(handle, bytes, 0, bytes.length, 0) < bytes.length) return null
    const head = decode(bytes)
    if (head !== 'torn') return head
    // Another process is writing it right now: wait for a few instructions.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1)
  }
  throw damaged('the index of the write-ahead log stays inconsistent: its writer may have died')
}

function decode(bytes: Buffer): WalIndexHead | null | 'torn' {
  const isLittle = endianness() === 'LE'
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  const word = (at: number) => view.getUint32(at, isLittle)
  if (bytes[12] !== 1) return null
  if (!bytes.subarray(0, headBytes).equals(bytes.subarray(headBytes))) return 'torn'
  const sum = new Checksum(!isLittle)
  sum.add(bytes, 0, checkedBytes)
  if (!sum.equals(word(40), word(44))) return 'torn'
  const pageBytes = view.getUint16(14, isLittle)
  return {
    change: word(8),
    pageBytes: pageBytes === 1 ? 65_536 : pageBytes,
    lastFrame: word(16),
    pageCount: word(20),
    sum: [word(24), word(28)],
    salts: `${view.getUint32(32)}/${view.getUint32(36)}`,
  }
}
