// A file of the mirror of history: records one after another, only ever appended. A process may be killed within a record,
// and a disk may damage some: every record begins with a mark, by which readers find the next one, and carries a check.
//
//   file   = record*
//   record = mark(4 bytes: 255 "RP" 1) size(4 bytes, little-endian, of the content) check(8 bytes: start of H(content)) content
//   content = 1 timeline(text) first(integer) count(integer) digest(32 bytes) bytes(rest)      a run
//           | 2 position(text)      the feed from the last start up to this position was written before it
//           | 3 sign(text)          from here on the feed is written again from its start; older records may then be removed

import { ByteReader, ByteWriter } from '../bytes.ts'
import { type Digest, equalBytes, type TimelineId } from '../coordinate.ts'
import { RepriseError } from '../errors.ts'
import type { EntryRun, FeedPosition, Hash } from '../store/ports.ts'

const mark = [255, 0x52, 0x50, 1] as const
const checkBytes = 8
const startBytes = mark.length + 4 + checkBytes
const digestBytes = 32

export type MirrorRecord =
  | { readonly kind: 'run'; readonly timeline: TimelineId; readonly run: EntryRun }
  | { readonly kind: 'position'; readonly position: FeedPosition }
  /** `sign`: covers the erasures up to then, and the key. */
  | { readonly kind: 'start'; readonly sign: string }

export interface PlacedRecord {
  readonly record: MirrorRecord
  readonly offset: number
  readonly size: number
}

export interface MirrorScan {
  readonly records: readonly PlacedRecord[]
  /** Bytes between records that belong to no record: damage. */
  readonly lostBytes: number
  /** Such bytes after the last record: usually an unfinished record. */
  readonly tornBytes: number
}

export function encodeRecord(hash: Hash, record: MirrorRecord): Uint8Array {
  const content = contentOf(record)
  const bytes = new Uint8Array(startBytes + content.length)
  bytes.set(mark)
  new DataView(bytes.buffer).setUint32(mark.length, content.length, true)
  bytes.set(hash(content).subarray(0, checkBytes), mark.length + 4)
  bytes.set(content, startBytes)
  return bytes
}

/** Returns every intact record in order. Whatever the bytes are, it returns only records that were written. */
export function scanRecords(hash: Hash, bytes: Uint8Array): MirrorScan {
  const records: PlacedRecord[] = []
  let lostBytes = 0
  let tornBytes = 0
  for (let offset = 0; offset < bytes.length; ) {
    const found = recordAt(hash, bytes, offset)
    if (found) {
      records.push(found)
      offset += found.size
      lostBytes += tornBytes
      tornBytes = 0
      continue
    }
    const next = nextMark(bytes, offset + 1)
    tornBytes += next - offset
    offset = next
  }
  return { records, lostBytes, tornBytes }
}

/** Null: there is no intact record at this offset. */
export function recordAt(hash: Hash, bytes: Uint8Array, offset: number): PlacedRecord | null {
  if (bytes.length - offset < startBytes || mark.some((byte, i) => bytes[offset + i] !== byte)) return null
  const view = new DataView(bytes.buffer, bytes.byteOffset + offset, startBytes)
  const length = view.getUint32(mark.length, true)
  const start = offset + startBytes
  if (length > bytes.length - start) return null
  const content = bytes.subarray(start, start + length)
  const check = bytes.subarray(offset + mark.length + 4, start)
  if (!equalBytes(hash(content).subarray(0, checkBytes), check)) return null
  try {
    return { record: decode(content), offset, size: startBytes + length }
  } catch (error) {
    if (error instanceof RepriseError) return null
    throw error
  }
}

function nextMark(bytes: Uint8Array, from: number): number {
  for (let at = bytes.indexOf(mark[0], from); at >= 0; at = bytes.indexOf(mark[0], at + 1)) {
    if (mark.every((byte, i) => bytes[at + i] === byte)) return at
  }
  return bytes.length
}

function contentOf(record: MirrorRecord): Uint8Array {
  const writer = new ByteWriter(record.kind === 'run' ? record.run.bytes.length + 128 : 64)
  if (record.kind !== 'run') {
    writer.byte(record.kind === 'position' ? 2 : 3)
    writer.text(record.kind === 'position' ? record.position : record.sign)
    return writer.take()
  }
  const { first, count, digest, bytes } = record.run
  writer.byte(1)
  writer.text(record.timeline)
  writer.integer(first)
  writer.integer(count)
  writer.raw(digest)
  writer.raw(bytes)
  return writer.take()
}

function decode(content: Uint8Array): MirrorRecord {
  const reader = new ByteReader(content)
  const kind = reader.byte()
  if (kind === 2) return { kind: 'position', position: reader.text() }
  if (kind === 3) return { kind: 'start', sign: reader.text() }
  if (kind !== 1) throw new RepriseError('MALFORMED', `a record of the mirror has an unknown kind ${kind}`)
  const timeline = reader.text() as TimelineId
  const first = reader.integer()
  const count = reader.integer()
  const digest: Digest = reader.raw(digestBytes).slice()
  return { kind: 'run', timeline, run: { first, count, digest, bytes: reader.raw(reader.remaining).slice() } }
}
