// One row of the log: everything that one transaction appended, to however many timelines. This file owns the format:
//
//   body  = kind(byte: 1 as committed, 2 compacted since) frame*            an empty body: nothing, or all of it trimmed
//   frame = size(integer, of what follows) crc(4 bytes, little-endian, of what follows, started from the row's position)
//           tid(integer) first(integer) count * 2 + hasDigest(integer) back(integer) [digest(32 bytes)] bytes(rest)
//
// `back` leads to the timeline's run before: 0 if there is none, else 1 + how many positions back its row is. The digest
// is left out where it is known to follow from the one before (log.ts), which saves more than a tenth of the space.

import { ByteReader, ByteWriter } from '../../core/bytes.ts'
import type { Digest } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import type { Run } from '../../core/ports.ts'
import { checksum } from './checksum.ts'

const asCommitted = 1
const compacted = 2
const digestBytes = 32
/** Five integers, the checksum and the digest. */
const frameOverheadMax = 5 * 8 + 4 + digestBytes

export interface Frame {
  readonly tid: number
  readonly first: number
  readonly last: number
  /** Position of the timeline's run before; 0: there is none. */
  readonly previous: number
  readonly digest: Digest | null
  readonly bytes: Uint8Array
}

export interface FrameDraft {
  readonly tid: number
  readonly previous: number
  /** Digest of the history before the run. */
  readonly before: Digest
  readonly run: Run
}

/** This is on the path of every append, so it writes straight into one array of the right size. */
export function encodeRow(
  position: number,
  drafts: readonly FrameDraft[],
  needsDigest: (draft: FrameDraft) => boolean,
): Uint8Array {
  if (drafts.length === 0) return new Uint8Array()
  let sizeMax = 1
  for (const { run } of drafts) sizeMax += run.bytes.length + frameOverheadMax
  const body = new Uint8Array(sizeMax)
  body[0] = asCommitted
  let end = 1
  for (const draft of drafts) end = writeFrame(body, end, position, draft, needsDigest(draft))
  return body.subarray(0, end)
}

function writeFrame(body: Uint8Array, start: number, position: number, draft: FrameDraft, hasDigest: boolean): number {
  const { tid, previous, run } = draft
  const countAndFlag = run.count * 2 + (hasDigest ? 1 : 0)
  const back = previous === 0 ? 0 : position - previous + 1
  const headSize = integerSize(tid) + integerSize(run.first) + integerSize(countAndFlag) + integerSize(back)
  const size = 4 + headSize + (hasDigest ? digestBytes : 0) + run.bytes.length
  const crcAt = writeInteger(body, start, size)
  let end = writeInteger(body, crcAt + 4, tid)
  end = writeInteger(body, end, run.first)
  end = writeInteger(body, end, countAndFlag)
  end = writeInteger(body, end, back)
  if (hasDigest) {
    body.set(run.digest, end)
    end += digestBytes
  }
  body.set(run.bytes, end)
  end += run.bytes.length
  const crc = checksum(body, crcAt + 4, end, position)
  for (let i = 0; i < 4; i++) body[crcAt + i] = (crc >>> (8 * i)) & 0xff
  return end
}

/** As ByteWriter.integer does it. */
export function writeInteger(bytes: Uint8Array, start: number, value: number): number {
  let rest = value
  let end = start
  while (rest >= 0x80) {
    bytes[end++] = (rest % 0x80) | 0x80
    rest = Math.floor(rest / 0x80)
  }
  bytes[end++] = rest
  return end
}

function integerSize(value: number): number {
  let size = 1
  for (let rest = value; rest >= 0x80; rest = Math.floor(rest / 0x80)) size += 1
  return size
}

/** The frames of a row, each checked. Throws MALFORMED where the row is damaged. */
export function* readFrames(position: number, body: Uint8Array): Generator<Frame> {
  if (body.length === 0) return
  const reader = openBody(position, body)
  while (reader.remaining > 0) yield readFrame(position, reader.sized())
}

/** The frame of this timeline that ends at `last`, or null. Others are passed over unchecked. */
export function findFrame(position: number, body: Uint8Array, tid: number, last: number): Frame | null {
  if (body.length === 0) return null
  const reader = openBody(position, body)
  while (reader.remaining > 0) {
    const content = reader.sized()
    if (peekTid(content) !== tid) continue
    const frame = readFrame(position, content)
    if (frame.last === last) return frame
  }
  return null
}

/** The row with only these frames, byte for byte as they were. */
export function compactRow(position: number, body: Uint8Array, isLive: (frame: Frame) => boolean): Uint8Array {
  const writer = new ByteWriter(body.length)
  writer.byte(compacted)
  const reader = openBody(position, body)
  while (reader.remaining > 0) {
    const content = reader.sized()
    if (isLive(readFrame(position, content))) writer.sized(content)
  }
  return writer.length === 1 ? new Uint8Array() : writer.take()
}

export function isAsCommitted(body: Uint8Array): boolean {
  return body[0] === asCommitted
}

function openBody(position: number, body: Uint8Array): ByteReader {
  const reader = new ByteReader(body)
  const kind = reader.byte()
  if (kind !== asCommitted && kind !== compacted) throw malformed(position, `is of an unknown kind ${kind}`)
  return reader
}

function peekTid(content: Uint8Array): number {
  return new ByteReader(content, 4).integer()
}

function readFrame(position: number, content: Uint8Array): Frame {
  const reader = new ByteReader(content)
  const stored = reader.byte() + reader.byte() * 2 ** 8 + reader.byte() * 2 ** 16 + reader.byte() * 2 ** 24
  if (checksum(content, 4, content.length, position) !== stored)
    throw malformed(position, 'does not match its checksum')
  const tid = reader.integer()
  const first = reader.integer()
  const countAndFlag = reader.integer()
  const back = reader.integer()
  const digest = countAndFlag % 2 === 1 ? reader.raw(digestBytes) : null
  const last = first + Math.floor(countAndFlag / 2) - 1
  return {
    tid,
    first,
    last,
    previous: back === 0 ? 0 : position - back + 1,
    digest,
    bytes: reader.raw(reader.remaining),
  }
}

function malformed(position: number, what: string): RepriseError {
  return new RepriseError('MALFORMED', `log row ${position} ${what}`, { position })
}
