// The part of a timeline that fencing and recovery depend on, packed into one value with a checksum: a flipped bit in it is
// detected. Every append rewrites it in place, so it is small and stored apart from the rest of the timeline.
//
//   state = crc(4 bytes, little-endian, of tid and what follows) seq epoch position updatedAt(integers) digest(32 bytes)
//           operation(text; empty: none) tail
//   tail  = floor(integer) floorDigest(32 bytes) flags(byte: 1 base, 2 owner, 4 life)
//           [base: name(text) seq(integer) digest(32 bytes)] [owner(text)] [life(integer)]
//                                     the tail does not change with appends; a head without a life is in its first

import { ByteReader, ByteWriter, textBytesMax, writeInteger, writeText } from '../../../core/bytes.ts'
import type { HeadFacts } from '../../../core/commit/view.ts'
import type { OperationId, WorkerId } from '../../../core/coordinate.ts'
import { RepriseError } from '../../../core/errors.ts'
import type { Base } from '../../../core/store/ports.ts'
import { checksum } from '../file/checksum.ts'
import { damaged } from '../file/failure.ts'

export interface HeadState extends HeadFacts {
  /** The position of its own last run; 0: it has none. */
  readonly position: number
}

const digestBytes = 32
const hasBase = 1
const hasOwner = 2
const hasLife = 4

/** The part that appends do not change: worth caching (timelines.ts). */
export function encodeTail({ floor, floorDigest, base, owner, life }: HeadState): Uint8Array {
  const writer = new ByteWriter(128)
  writer.integer(floor)
  writer.raw(floorDigest)
  writer.byte((base ? hasBase : 0) | (owner !== null ? hasOwner : 0) | (life !== 1 ? hasLife : 0))
  if (base) {
    writer.text(base.timeline)
    writer.integer(base.seq)
    writer.raw(base.digest)
  }
  if (owner !== null) writer.text(owner)
  if (life !== 1) writer.integer(life)
  return writer.take()
}

/** The maximum size of a head, without its tail. */
export function headBytesMax(state: HeadState): number {
  return 4 + 4 * 8 + digestBytes + textBytesMax(state.operation ?? '')
}

/** Writes the packed state at `start` and returns its end. On the path of every append, so it does not allocate. */
export function encodeHead(bytes: Uint8Array, start: number, tid: number, state: HeadState, tail: Uint8Array): number {
  let end = writeInteger(bytes, start + 4, state.seq)
  end = writeInteger(bytes, end, state.epoch)
  end = writeInteger(bytes, end, state.position)
  end = writeInteger(bytes, end, Math.floor(state.updatedAt))
  bytes.set(state.digest, end)
  end = writeText(bytes, end + digestBytes, state.operation ?? '')
  bytes.set(tail, end)
  end += tail.length
  const crc = checksum(bytes, start + 4, end, tid)
  for (let i = 0; i < 4; i++) bytes[start + i] = (crc >>> (8 * i)) & 0xff
  return end
}

export function decodeHead(tid: number, bytes: Uint8Array, timeline: string): HeadState {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  if (bytes.length < 4 || view.getUint32(0, true) !== checksum(bytes, 4, bytes.length, tid)) throw broken(timeline)
  try {
    return decode(new ByteReader(bytes, 4))
  } catch (cause) {
    if (cause instanceof RepriseError) throw broken(timeline, cause)
    throw cause
  }
}

/** Null: these are not the bytes of a head, or they are damaged. */
export function headOf(tid: unknown, state: unknown): HeadState | null {
  if (!(state instanceof Uint8Array) || typeof tid !== 'number') return null
  try {
    return decodeHead(tid, state, `timeline ${tid}`)
  } catch (error) {
    if (error instanceof RepriseError) return null
    throw error
  }
}

function decode(reader: ByteReader): HeadState {
  const seq = reader.integer()
  const epoch = reader.integer()
  const position = reader.integer()
  const updatedAt = reader.integer()
  const digest = reader.raw(digestBytes).slice()
  const operation = (reader.text() || null) as OperationId | null
  const floor = reader.integer()
  const floorDigest = reader.raw(digestBytes).slice()
  const flags = reader.byte()
  const base = flags & hasBase ? decodeBase(reader) : null
  const owner = flags & hasOwner ? (reader.text() as WorkerId) : null
  const life = flags & hasLife ? reader.integer() : 1
  return { seq, life, epoch, digest, position, floor, floorDigest, base, owner, operation, updatedAt }
}

function decodeBase(reader: ByteReader): Base {
  const timeline = reader.text() as Base['timeline']
  return { timeline, seq: reader.integer(), digest: reader.raw(digestBytes).slice() }
}

function broken(timeline: string, cause?: unknown): RepriseError {
  const error = damaged(`the head of ${timeline} does not match its checksum`, { timeline })
  if (cause !== undefined) error.cause = cause
  return error
}
