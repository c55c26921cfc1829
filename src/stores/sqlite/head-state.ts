// The part of a timeline that fencing and recovery rest on, packed into one value with a checksum: a flipped bit in it is
// found, not obeyed. Every append rewrites it in place, so it is small and lies apart from the rest of the timeline.
//
//   state = crc(4 bytes, little-endian, of tid and what follows) seq epoch position floor updatedAt(integers)
//           digest floorDigest(32 bytes each) flags(byte: 1 base, 2 owner, 4 operation)
//           [base: name(text) seq(integer) digest(32 bytes)] [owner(text)] [operation(text)]

import { crc32 } from 'node:zlib'
import { ByteReader, ByteWriter } from '../../core/bytes.ts'
import type { Digest, OperationId, WorkerId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import type { Base } from '../../core/ports.ts'
import { damaged } from './failure.ts'

export interface HeadState {
  readonly seq: number
  readonly epoch: number
  readonly digest: Digest
  /** Where the last run of its own lies; 0: it has none. */
  readonly position: number
  readonly floor: number
  readonly floorDigest: Digest
  readonly base: Base | null
  readonly owner: WorkerId | null
  readonly operation: OperationId | null
  readonly updatedAt: number
}

const digestBytes = 32
const hasBase = 1
const hasOwner = 2
const hasOperation = 4

export function encodeHead(tid: number, state: HeadState): Uint8Array {
  const writer = new ByteWriter(256)
  writer.raw(new Uint8Array(4))
  for (const value of [state.seq, state.epoch, state.position, state.floor, Math.floor(state.updatedAt)])
    writer.integer(value)
  writer.raw(state.digest)
  writer.raw(state.floorDigest)
  writer.byte(
    (state.base ? hasBase : 0) | (state.owner !== null ? hasOwner : 0) | (state.operation !== null ? hasOperation : 0),
  )
  if (state.base) {
    writer.text(state.base.timeline)
    writer.integer(state.base.seq)
    writer.raw(state.base.digest)
  }
  if (state.owner !== null) writer.text(state.owner)
  if (state.operation !== null) writer.text(state.operation)
  const bytes = writer.take()
  new DataView(bytes.buffer).setUint32(0, checksum(tid, bytes), true)
  return bytes
}

export function decodeHead(tid: number, bytes: Uint8Array, timeline: string): HeadState {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  if (bytes.length < 4 || view.getUint32(0, true) !== checksum(tid, bytes)) throw broken(timeline)
  try {
    return decode(new ByteReader(bytes, 4))
  } catch (cause) {
    if (cause instanceof RepriseError) throw broken(timeline, cause)
    throw cause
  }
}

function decode(reader: ByteReader): HeadState {
  const seq = reader.integer()
  const epoch = reader.integer()
  const position = reader.integer()
  const floor = reader.integer()
  const updatedAt = reader.integer()
  const digest = reader.raw(digestBytes).slice()
  const floorDigest = reader.raw(digestBytes).slice()
  const flags = reader.byte()
  const base = flags & hasBase ? decodeBase(reader) : null
  const owner = flags & hasOwner ? (reader.text() as WorkerId) : null
  const operation = flags & hasOperation ? (reader.text() as OperationId) : null
  return { seq, epoch, digest, position, floor, floorDigest, base, owner, operation, updatedAt }
}

function decodeBase(reader: ByteReader): Base {
  const timeline = reader.text() as Base['timeline']
  return { timeline, seq: reader.integer(), digest: reader.raw(digestBytes).slice() }
}

function checksum(tid: number, bytes: Uint8Array): number {
  return crc32(bytes.subarray(4), tid >>> 0)
}

function broken(timeline: string, cause?: unknown): RepriseError {
  const error = damaged(`the head of ${timeline} does not match its checksum`, { timeline })
  if (cause !== undefined) error.cause = cause
  return error
}
