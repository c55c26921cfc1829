// The part of a timeline that fencing and recovery rest on, packed into one value with a checksum: a flipped bit in it is
// found, not obeyed. Every append rewrites it in place, so it is small and lies apart from the rest of the timeline.
//
//   state = crc(4 bytes, little-endian, of tid and what follows) seq epoch position floor updatedAt(integers)
//           digest floorDigest(32 bytes each) flags(byte: 1 base, 2 owner, 4 operation)
//           [base: name(text) seq(integer) digest(32 bytes)] [owner(text)] [operation(text)]

import { crc32 } from 'node:zlib'
import { assert } from '../../core/assert.ts'
import { ByteReader, type ByteWriter } from '../../core/bytes.ts'
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

/** A copy that is nobody else's: a Buffer's own slice would share its memory. */
export function copyDigest(digest: Digest): Digest {
  assert(digest.length === digestBytes, 'a digest has 32 bytes')
  return new Uint8Array(digest)
}

/** Appends the packed state to the writer: one writer serves all the heads of a transaction. */
export function encodeHead(writer: ByteWriter, tid: number, state: HeadState): void {
  const { base, owner, operation } = state
  const start = writer.length
  for (let i = 0; i < 4; i++) writer.byte(0)
  writer.integer(state.seq)
  writer.integer(state.epoch)
  writer.integer(state.position)
  writer.integer(state.floor)
  writer.integer(Math.floor(state.updatedAt))
  writer.raw(state.digest)
  writer.raw(state.floorDigest)
  writer.byte((base ? hasBase : 0) | (owner !== null ? hasOwner : 0) | (operation !== null ? hasOperation : 0))
  if (base) {
    writer.text(base.timeline)
    writer.integer(base.seq)
    writer.raw(base.digest)
  }
  if (owner !== null) writer.text(owner)
  if (operation !== null) writer.text(operation)
  const bytes = writer.view().subarray(start)
  const crc = checksum(tid, bytes)
  for (let i = 0; i < 4; i++) bytes[i] = (crc >>> (8 * i)) & 0xff
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
