// One row of the log: all runs that one transaction appended, to any number of timelines. This file owns the format:
//
//   body  = kind(byte: 1 as committed, 2 compacted since) mark(4 bytes, from kind and position) frame*
//         | 12 time(integer, ms: the store's clock) frame*                  unsettled: the heads were not written (unsettled.ts)
//         | 3 mark(4 bytes) count(integer) crc(4 bytes, of count, started from position)
//                                          it represents this many earlier rows as well: none holds anything (empty-rows.ts)
//   frame = size(integer, of what follows) crc(4 bytes, little-endian, of what follows, started from position and time)
//           tid(integer) first(integer) count * 4 + flags(integer: 1 digest, 2 operation) back(integer)
//           [digest(32 bytes)] [operation(text)] bytes(rest)
//
// `back` points to the timeline's previous run: 0 if there is none, else 1 + the distance of its row in positions. The digest is
// omitted where it follows from the one before (log.ts), which saves more than a tenth of the space; the operation is omitted
// where the head has it, and where it follows from the digest.

import { ByteReader, ByteWriter, integerSize, textBytesMax, writeInteger } from '../../../core/bytes.ts'
import type { Digest, OperationId } from '../../../core/coordinate.ts'
import { RepriseError } from '../../../core/errors.ts'
import { isAppendOperation } from '../../../core/history/entry-run.ts'
import type { EntryRun } from '../../../core/store/ports.ts'
import { checksum } from '../file/checksum.ts'

const asCommitted = 1
const compacted = 2
const joined = 3
/** Has no mark, to save space. No damage turns it into a settled row, which would hide that the heads are outdated. */
const unsettled = 12
const markBytes = 4
const crcBytes = 4
const digestBytes = 32
const hasDigest = 1
const hasOperation = 2
/** Five integers, the checksum and the digest. */
const frameOverheadMax = 5 * 8 + 4 + digestBytes

export interface Frame {
  readonly tid: number
  readonly first: number
  readonly last: number
  /** The position of the timeline's previous run; 0: there is none. */
  readonly previous: number
  readonly digest: Digest | null
  /** Only in an unsettled row, and only if it does not follow from the digest. */
  readonly operation: OperationId | null
  readonly bytes: Uint8Array
}

/** A frame, with its row. */
export interface PlacedRun {
  readonly position: number
  readonly frame: Frame
}

export interface FrameDraft {
  readonly tid: number
  readonly previous: number
  /** The digest of the history before the run. */
  readonly before: Digest
  readonly run: EntryRun
  readonly operation: OperationId
}

/** Reuses one buffer for all rows: this is on the path of every append. */
export class RowEncoder {
  #bytes = new Uint8Array(16 * 1024)

  /** The body is valid until the next call. `unsettledAt`: the time, if the row is unsettled. */
  encode(
    position: number,
    drafts: readonly FrameDraft[],
    unsettledAt: number | null,
    needsDigest: (draft: FrameDraft) => boolean,
  ): Uint8Array {
    let sizeMax = 1 + 8
    for (const { run, operation } of drafts) sizeMax += run.bytes.length + frameOverheadMax + textBytesMax(operation)
    if (this.#bytes.length < sizeMax) this.#bytes = new Uint8Array(2 * sizeMax)
    const bytes = this.#bytes
    let end = writeStart(bytes, position, unsettledAt === null ? asCommitted : unsettled, unsettledAt)
    const seed = seedOf(position, unsettledAt)
    for (const draft of drafts) {
      const isReported = unsettledAt !== null && !isAppendOperation(draft.operation, draft.run.digest)
      const flags = (needsDigest(draft) ? hasDigest : 0) | (isReported ? hasOperation : 0)
      end = writeFrame(bytes, end, position, seed, draft, flags)
    }
    return bytes.subarray(0, end)
  }
}

const noBytes = new Uint8Array()

function writeStart(bytes: Uint8Array, position: number, kind: number, unsettledAt: number | null): number {
  bytes[0] = kind
  if (unsettledAt !== null) return writeInteger(bytes, 1, unsettledAt)
  const mark = markOf(position, kind)
  for (let i = 0; i < markBytes; i++) bytes[1 + i] = (mark >>> (8 * i)) & 0xff
  return 1 + markBytes
}

function markOf(position: number, kind: number): number {
  return Math.imul((position % 2 ** 32) ^ kind, 0x9e3779b1) ^ Math.floor(position / 2 ** 32)
}

/** The seed of a row's checksums, which detects a row at another position or of another kind. */
function seedOf(position: number, unsettledAt: number | null): number {
  return unsettledAt === null
    ? position
    : position ^ (unsettledAt % 2 ** 31) ^ Math.floor(unsettledAt / 2 ** 31) ^ unsettled
}

function writeFrame(
  body: Uint8Array,
  start: number,
  position: number,
  seed: number,
  { tid, previous, run, operation }: Omit<FrameDraft, 'before'>,
  flags: number,
): number {
  const countAndFlags = run.count * 4 + flags
  const back = previous === 0 ? 0 : position - previous + 1
  const headSize = integerSize(tid) + integerSize(run.first) + integerSize(countAndFlags) + integerSize(back)
  const encoded = flags & hasOperation ? encodeText(operation) : noBytes
  const size = 4 + headSize + (flags & hasDigest ? digestBytes : 0) + encoded.length + run.bytes.length
  const crcAt = writeInteger(body, start, size)
  let end = writeInteger(body, crcAt + 4, tid)
  end = writeInteger(body, end, run.first)
  end = writeInteger(body, end, countAndFlags)
  end = writeInteger(body, end, back)
  if (flags & hasDigest) {
    body.set(run.digest, end)
    end += digestBytes
  }
  if (encoded.length > 0) {
    body.set(encoded, end)
    end += encoded.length
  }
  body.set(run.bytes, end)
  end += run.bytes.length
  const crc = checksum(body, crcAt + 4, end, seed)
  for (let i = 0; i < 4; i++) body[crcAt + i] = (crc >>> (8 * i)) & 0xff
  return end
}

function encodeText(text: string): Uint8Array {
  const writer = new ByteWriter(64)
  writer.text(text)
  return writer.view()
}

/** Null for a row whose heads were written with it; else the store's time at its commit. */
export function unsettledTime(position: number, body: Uint8Array): number | null {
  return openBody(position, body).unsettledAt
}

/** The frames of a row, each verified. Throws MALFORMED if the row is damaged. */
export function* readFrames(position: number, body: Uint8Array): Generator<Frame> {
  const { reader, seed } = openBody(position, body)
  while (reader.remaining > 0) yield readFrame(position, seed, reader.sized())
}

/** True: every frame of the row can be read. */
export function isWhole(position: number, body: unknown): boolean {
  try {
    for (const _ of readFrames(position, body as Uint8Array)) void _
    return true
  } catch (error) {
    if (error instanceof RepriseError) return false
    throw error
  }
}

/** The seed of the checksums of its frames; null: its first bytes are damaged. */
export function frameSeed(position: number, body: Uint8Array): number | null {
  try {
    return openBody(position, body).seed
  } catch (error) {
    if (error instanceof RepriseError) return null
    throw error
  }
}

/** The readable frames of a damaged row. */
export function soundFrames(position: number, body: unknown): Frame[] {
  if (!(body instanceof Uint8Array)) return []
  for (const { reader, seed } of likelyStarts(position, body)) {
    const frames = framesUntilDamage(position, seed, reader)
    if (frames.length > 0) return frames
  }
  return []
}

/** The start according to its first bytes and, since these may be damaged, the alternatives. */
function likelyStarts(position: number, body: Uint8Array) {
  const starts = [{ reader: new ByteReader(body, emptyRowBytes), seed: seedOf(position, null) }]
  try {
    starts.unshift(openBody(position, body))
  } catch (error) {
    if (!(error instanceof RepriseError)) throw error
  }
  return starts
}

function framesUntilDamage(position: number, seed: number, reader: ByteReader): Frame[] {
  const frames: Frame[] = []
  try {
    while (reader.remaining > 0) {
      const content = reader.sized()
      try {
        frames.push(readFrame(position, seed, content))
      } catch (error) {
        if (!(error instanceof RepriseError)) throw error
      }
    }
  } catch (error) {
    // A length is damaged: the frames after it cannot be separated.
    if (!(error instanceof RepriseError)) throw error
  }
  return frames
}

/** The frame of this timeline that ends at `last`, or null. Other frames are skipped without verification. */
export function findFrame(position: number, body: Uint8Array, tid: number, last: number): Frame | null {
  const { reader, seed } = openBody(position, body)
  while (reader.remaining > 0) {
    const content = reader.sized()
    if (peekTid(content) !== tid) continue
    const frame = readFrame(position, seed, content)
    if (frame.last === last) return frame
  }
  return null
}

/** The row with only these frames. */
export function compactRow(position: number, body: Uint8Array, isLive: (frame: Frame) => boolean): Uint8Array {
  return compactedRow(position, [...readFrames(position, body)].filter(isLive))
}

/** A row of these frames, each with its digest where it has one. */
export function compactedRow(position: number, frames: readonly Frame[]): Uint8Array {
  const sizeMax = frames.reduce((sum, { bytes }) => sum + bytes.length + frameOverheadMax, emptyRowBytes)
  const rest = new Uint8Array(sizeMax)
  let end = writeStart(rest, position, compacted, null)
  for (const frame of frames) {
    const { tid, previous, first, last, digest, bytes } = frame
    const run = { first, count: last - first + 1, digest: digest ?? noBytes, bytes }
    const draft = { tid, previous, run, operation: '' as OperationId }
    end = writeFrame(rest, end, position, seedOf(position, null), draft, digest ? hasDigest : 0)
  }
  return rest.subarray(0, end)
}

/** The length of a row that holds nothing. */
export const emptyRowBytes = 1 + markBytes

/** A row that represents itself and `count` removed rows before it, all of them empty. */
export function joinedRow(position: number, count: number): Uint8Array {
  const body = new Uint8Array(emptyRowBytes + integerSize(count) + crcBytes)
  const start = writeStart(body, position, joined, null)
  const end = writeInteger(body, start, count)
  const crc = checksum(body, start, end, seedOf(position, null))
  for (let i = 0; i < crcBytes; i++) body[end + i] = (crc >>> (8 * i)) & 0xff
  return body
}

/** The number of removed empty rows that this row represents. Throws MALFORMED if the row is damaged. */
export function joinedBefore(position: number, body: unknown): number {
  if (!(body instanceof Uint8Array) || body[0] !== joined) return 0
  return openBody(position, body).joined
}

/** True: the row holds nothing. */
export function isEmptyRow(body: unknown): boolean {
  return body instanceof Uint8Array && (body.length === emptyRowBytes || body[0] === joined)
}

export function isAsCommitted(body: Uint8Array): boolean {
  return body[0] === asCommitted || body[0] === unsettled
}

function openBody(position: number, body: Uint8Array) {
  // A flipped bit in the record header can turn the blob into a null or a number.
  if (!(body instanceof Uint8Array)) throw malformed(position, 'has no bytes')
  const reader = new ByteReader(body)
  const kind = reader.byte()
  if (kind !== asCommitted && kind !== compacted && kind !== joined && kind !== unsettled) {
    throw malformed(position, `has an unknown kind ${kind}`)
  }
  if (kind === unsettled) {
    const unsettledAt = reader.integer()
    return { reader, unsettledAt, seed: seedOf(position, unsettledAt), joined: 0 }
  }
  const mark = reader.byte() | (reader.byte() << 8) | (reader.byte() << 16) | (reader.byte() << 24)
  if (mark !== markOf(position, kind)) throw malformed(position, 'lacks its mark')
  const seed = seedOf(position, null)
  return { reader, unsettledAt: null, seed, joined: kind === joined ? readJoined(position, body, reader, seed) : 0 }
}

function readJoined(position: number, body: Uint8Array, reader: ByteReader, seed: number): number {
  const count = reader.integer()
  const end = emptyRowBytes + integerSize(count)
  const stored = reader.byte() + reader.byte() * 2 ** 8 + reader.byte() * 2 ** 16 + reader.byte() * 2 ** 24
  if (checksum(body, emptyRowBytes, end, seed) !== stored || reader.remaining > 0 || count >= position) {
    throw malformed(position, 'does not match its checksum')
  }
  return count
}

function peekTid(content: Uint8Array): number {
  return new ByteReader(content, 4).integer()
}

function readFrame(position: number, seed: number, content: Uint8Array): Frame {
  const reader = new ByteReader(content)
  const stored = reader.byte() + reader.byte() * 2 ** 8 + reader.byte() * 2 ** 16 + reader.byte() * 2 ** 24
  if (checksum(content, 4, content.length, seed) !== stored) throw malformed(position, 'does not match its checksum')
  const tid = reader.integer()
  const first = reader.integer()
  const countAndFlags = reader.integer()
  const back = reader.integer()
  const digest = countAndFlags & hasDigest ? reader.raw(digestBytes) : null
  const operation = countAndFlags & hasOperation ? (reader.text() as OperationId) : null
  const last = first + Math.floor(countAndFlags / 4) - 1
  if (back > position) throw malformed(position, 'leads back to before the log')
  const previous = back === 0 ? 0 : position - back + 1
  return { tid, first, last, previous, digest, operation, bytes: reader.raw(reader.remaining) }
}

function malformed(position: number, what: string): RepriseError {
  return new RepriseError('MALFORMED', `log row ${position} ${what}`, { position })
}
