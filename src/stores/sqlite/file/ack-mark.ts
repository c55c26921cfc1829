// The acknowledged mark: the log position of the last commit that was reported as durable, stored outside the database in
// `<file>-ack`. SQLite truncates a damaged write-ahead log silently; the mark detects that. It is written without fsync: it
// must survive a kill, and after a power loss an older mark is still a lower bound.
//
//   slot  = crc(4 bytes) bytes(4: length of the row's body) bodyCrc(4) unused(4) position(8)      all little-endian
//   file  = slot slot     the one for even positions, the one for odd: a torn write leaves the other

import { closeSync, constants, existsSync, openSync, readSync, renameSync, rmSync, writeSync } from 'node:fs'
import { crc32 } from 'node:zlib'
import type { Log } from '../log/log.ts'
import { isAsCommitted } from '../log/log-row.ts'
import { damaged } from './failure.ts'

// Save the original before the guard installs its replacement, which determines the caller on each call.
const write = writeSync
const slotBytes = 24

export interface Mark {
  readonly position: number
  readonly bytes: number
  readonly bodyCrc: number
}

export class AckMark {
  readonly #file: string
  /** The mark of a file that was replaced by an older copy, until `reprise incarnate` has ended: it still counts. */
  readonly #aside: string
  readonly #slot = new DataView(new ArrayBuffer(slotBytes))
  /** The part of the slot that its checksum covers. */
  readonly #checked = new Uint8Array(this.#slot.buffer, 4)
  readonly #both = new Uint32Array((2 * slotBytes) / 4)
  /** The bytes of the last read, and their position. */
  readonly #last = new Uint32Array((2 * slotBytes) / 4)
  #lastPosition = 0
  #handle: number | null = null
  #reading: number | null = null

  constructor(databaseFile: string) {
    this.#file = `${databaseFile}-ack`
    this.#aside = asideOf(databaseFile)
  }

  /** Two processes may write at once; the larger position of the two slots is used, and each is a lower bound. */
  write(position: number, body: Uint8Array): void {
    this.#handle ??= openForWriting(this.#file)
    const slot = this.#slot
    slot.setUint32(4, body.length, true)
    slot.setUint32(8, crc32(body), true)
    slot.setBigUint64(16, BigInt(position), true)
    slot.setUint32(0, crc32(this.#checked), true)
    write(this.#handle, slot, 0, slotBytes, (position % 2) * slotBytes)
  }

  /** The position that the log must reach, read before the log; null if no commit was reported as durable. */
  read(): Mark | null {
    const files = existsSync(this.#aside) ? [this.#file, this.#aside] : [this.#file]
    const marks = files.flatMap((file) => [0, 1].map((index) => readSlot(file, index))).filter((mark) => mark !== null)
    return marks.reduce<Mark | null>((best, mark) => (best && best.position > mark.position ? best : mark), null)
  }

  /** The position that the log must reach; 0: none. Every read calls this, so the file is kept open. */
  position(): number {
    this.#reading ??= openToRead(this.#file)
    if (this.#reading === null) return 0
    const both = this.#both
    const count = readSync(this.#reading, both, 0, 2 * slotBytes, 0)
    const isWhole = count === 2 * slotBytes
    if (isWhole && both.every((word, i) => word === this.#last[i])) return this.#lastPosition
    let position = 0
    for (let at = 0; at + slotBytes <= count; at += slotBytes) {
      const slot = new DataView(both.buffer, at, slotBytes)
      if (slot.getUint32(0, true) !== crc32(new Uint8Array(both.buffer, at + 4, slotBytes - 4))) continue
      position = Math.max(position, Number(slot.getBigUint64(16, true)))
    }
    if (isWhole) {
      this.#last.set(both)
      this.#lastPosition = position
    }
    return position
  }

  /**
   * Throws STORE_DAMAGED if the log (null: there is none) does not reach the mark, or has different content there. The log must
   * be a single state of the file, no older than the mark: other processes may write and tidy at the same time.
   */
  check(mark: Mark | null, log: Log | null): void {
    if (!mark || isReached(mark, log)) return
    const reached = log?.lastPosition() ?? 0
    throw damaged(
      `acknowledged entries are missing: the log ends at ${reached}, or differs from the acknowledged state at ` +
        `${mark.position} (if an older copy of the file was put in place on purpose, accept it: reprise incarnate)`,
      { file: this.#file, acknowledged: mark.position, reached },
    )
  }

  /** A person accepts an older copy: if the log does not reach the mark, the mark is set aside. */
  accept(mark: Mark | null, log: Log | null): void {
    if (!mark || isReached(mark, log) || existsSync(this.#aside)) return
    renameSync(this.#file, this.#aside)
  }

  close(): void {
    for (const handle of [this.#handle, this.#reading]) if (handle !== null) closeSync(handle)
    this.#handle = null
    this.#reading = null
  }
}

/** The older copy has been accepted: its missing entries no longer count as damage. */
export function dropMarkAside(databaseFile: string): void {
  rmSync(asideOf(databaseFile), { force: true })
}

function asideOf(databaseFile: string): string {
  return `${databaseFile}-ack-before`
}

/** Rows below the start of the log were removed by tidy: a mark this old was left by a process that was suspended. */
function isReached(mark: Mark, log: Log | null): boolean {
  if (log && mark.position < log.firstPosition()) return true
  const body = log?.body(mark.position)
  return body ? !isAsCommitted(body) || isBody(body, mark) : (log?.isJoined(mark.position) ?? false)
}

function isBody(body: Uint8Array, { bytes, bodyCrc }: Mark): boolean {
  return body.length === bytes && crc32(body) === bodyCrc
}

/** Null if the slot was never written, or is torn. */
function readSlot(file: string, index: number): Mark | null {
  const slot = new DataView(new ArrayBuffer(slotBytes))
  try {
    const handle = openSync(file, 'r')
    try {
      if (readSync(handle, slot, 0, slotBytes, index * slotBytes) < slotBytes) return null
    } finally {
      closeSync(handle)
    }
  } catch {
    return null
  }
  if (slot.getUint32(0, true) !== crc32(bytesOf(slot).subarray(4))) return null
  return {
    position: Number(slot.getBigUint64(16, true)),
    bytes: slot.getUint32(4, true),
    bodyCrc: slot.getUint32(8, true),
  }
}

function openToRead(file: string): number | null {
  try {
    return openSync(file, 'r')
  } catch {
    return null
  }
}

function openForWriting(file: string): number {
  return openSync(file, constants.O_RDWR | constants.O_CREAT, 0o644)
}

function bytesOf(view: DataView): Uint8Array {
  return new Uint8Array(view.buffer)
}
