// Frames of the write-ahead log from a given frame on, each verified against the running checksum of the one before. A frame
// overwritten by a newer cycle of the log does not continue it and ends the reading; nothing else can.

import { closeSync, fstatSync, openSync, readSync } from 'node:fs'
import type { LogPlace } from '../../../core/shipping/page-source.ts'
import { isMissing } from '../../../lib/durable-file.ts'
import { Checksum } from '../file/wal-scan.ts'

export interface SoundFrame {
  /** Counted from 1. */
  readonly frame: number
  readonly page: number
  /** The pages of the file after this transaction; 0: the transaction continues. */
  readonly pagesAfter: number
  readonly sum: readonly [number, number]
  /** A view, valid until the next frame is read. */
  readonly content: Uint8Array
  readonly offset: number
}

export type FramePlace = Pick<LogPlace, 'salts' | 'frame' | 'sum'>

const headerBytes = 32
const frameHeaderBytes = 24
const readBytes = 1 << 20

/** Up to and including frame `last`. Default: as far as they continue. */
export function* soundFrames(
  file: string,
  after: FramePlace,
  pageBytes: number,
  last = Number.POSITIVE_INFINITY,
): Generator<SoundFrame> {
  const handle = openLog(file)
  if (handle === null) return
  try {
    const header = Buffer.alloc(headerBytes)
    if (readSync(handle, header, 0, headerBytes, 0) < headerBytes) return
    let sum = after.sum
    if (after.frame === 0) {
      if (saltsOf(header, 16) !== after.salts) return
      sum = [header.readUInt32BE(24), header.readUInt32BE(28)]
    }
    yield* framesAfter(handle, { ...after, sum }, pageBytes, last, (header.readUInt32BE(0) & 1) === 1)
  } finally {
    closeSync(handle)
  }
}

/** The log itself carries no locks, so it may be opened and closed freely. */
function openLog(file: string): number | null {
  try {
    return openSync(`${file}-wal`, 'r')
  } catch (error) {
    if (isMissing(error)) return null
    throw error
  }
}

function* framesAfter(
  handle: number,
  after: FramePlace,
  pageBytes: number,
  last: number,
  isBigEndian: boolean,
): Generator<SoundFrame> {
  const frameBytes = frameHeaderBytes + pageBytes
  const block = Buffer.alloc(Math.max(1, Math.floor(readBytes / frameBytes)) * frameBytes)
  let { frame, sum } = after
  while (frame < last) {
    const from = headerBytes + frame * frameBytes
    const got = readSync(handle, block, 0, block.length, from)
    if (got < frameBytes) return
    for (let at = 0; at + frameBytes <= got && frame < last; at += frameBytes) {
      if (saltsOf(block, at + 8) !== after.salts) return
      const own = new Checksum(isBigEndian, sum)
      own.add(block, at, 8)
      own.add(block, at + frameHeaderBytes, pageBytes)
      const stored = [block.readUInt32BE(at + 16), block.readUInt32BE(at + 20)] as const
      if (!own.equals(...stored)) return
      sum = stored
      frame += 1
      yield {
        frame,
        page: block.readUInt32BE(at),
        pagesAfter: block.readUInt32BE(at + 4),
        sum,
        content: block.subarray(at + frameHeaderBytes, at + frameBytes),
        offset: from + at + frameHeaderBytes,
      }
    }
  }
}

/** Whether this frame still exists unchanged. */
export function hasFrame(file: string, place: FramePlace, pageBytes: number): boolean {
  const handle = openLog(file)
  if (handle === null) return false
  try {
    const header = Buffer.alloc(place.frame === 0 ? headerBytes : frameHeaderBytes)
    const from = place.frame === 0 ? 0 : headerBytes + (place.frame - 1) * (frameHeaderBytes + pageBytes)
    if (readSync(handle, header, 0, header.length, from) < header.length) return false
    if (place.frame === 0) return saltsOf(header, 16) === place.salts
    const [first, second] = place.sum
    return saltsOf(header, 8) === place.salts && header.readUInt32BE(16) === first && header.readUInt32BE(20) === second
  } finally {
    closeSync(handle)
  }
}

export function logSize(file: string): number {
  const handle = openLog(file)
  if (handle === null) return 0
  try {
    return fstatSync(handle).size
  } finally {
    closeSync(handle)
  }
}

function saltsOf(bytes: Buffer, at: number): string {
  return `${bytes.readUInt32BE(at)}/${bytes.readUInt32BE(at + 4)}`
}
