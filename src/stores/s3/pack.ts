// The two kinds of objects that hold chunks in an object store. Both are written once and never changed.
//   pack    = chunk* list listDigest(32) listBytes(4, little-endian) "RPK1"
//   list    = count(integer) since(integer) { digest(32) bytes(integer) at(integer: ms after since) }*
//             in the order of the chunks; `at`: the last touch of the chunk, as far as the pack knows
//   notes   = "RPN1" body bodyDigest(32)
//   body    = packs touches drops
//   packs   = count { id(text) bytes(integer) list(sized) }*      the lists of packs, so that not every pack must be read
//   touches = count { digest(32) at(integer) }*                   chunks that were touched after they were packed
//   drops   = count { id(text) count { place(integer) before(integer) }* }*     chunks of a pack, by place, to be deleted
//             unless they were touched since `before`
// A pack describes itself: all chunks are found without any notes. The list is at its end, so its last bytes are
// enough.

import { ByteReader, ByteWriter } from '../../core/bytes.ts'
import { type Digest, equalBytes } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import type { Hash } from '../../core/store/ports.ts'

const packEnd = new TextEncoder().encode('RPK1')
const notesStart = new TextEncoder().encode('RPN1')
const digestBytes = 32
export const packTailBytes = digestBytes + 4 + packEnd.length

export interface PackedChunk {
  readonly digest: Digest
  readonly bytes: Uint8Array
  readonly at: number
}

/** The chunks of a pack, place by place. */
export interface PackList {
  readonly count: number
  /** 32 bytes each, one after another. */
  readonly digests: Uint8Array
  readonly sizes: Uint32Array
  readonly offsets: Uint32Array
  readonly ats: Float64Array
}

export interface Notes {
  readonly packs: readonly { readonly id: string; readonly bytes: number; readonly list: Uint8Array }[]
  readonly touches: readonly { readonly digest: Digest; readonly at: number }[]
  readonly drops: readonly {
    readonly pack: string
    readonly places: readonly { readonly place: number; readonly before: number }[]
  }[]
}

export function encodePack(hash: Hash, chunks: readonly PackedChunk[]): { bytes: Uint8Array; list: Uint8Array } {
  const since = chunks.reduce((least, { at }) => Math.min(least, at), Number.MAX_SAFE_INTEGER)
  const writer = new ByteWriter(64 + chunks.length * 48)
  writer.integer(chunks.length)
  writer.integer(since)
  for (const { digest, bytes, at } of chunks) {
    writer.raw(digest)
    writer.integer(bytes.length)
    writer.integer(at - since)
  }
  const list = writer.take()
  const body = chunks.reduce((sum, { bytes }) => sum + bytes.length, 0)
  const all = new Uint8Array(body + list.length + packTailBytes)
  let at = 0
  for (const { bytes } of chunks) {
    all.set(bytes, at)
    at += bytes.length
  }
  all.set(list, at)
  all.set(hash(list), at + list.length)
  new DataView(all.buffer).setUint32(at + list.length + digestBytes, list.length, true)
  all.set(packEnd, all.length - packEnd.length)
  return { bytes: all, list }
}

/** The length of the list that ends with these bytes. Null: they are not the end of a pack. */
export function listBytesOf(tail: Uint8Array): number | null {
  const end = tail.subarray(tail.length - packEnd.length)
  if (tail.length < packTailBytes || !equalBytes(end, packEnd)) return null
  return new DataView(tail.buffer, tail.byteOffset + tail.length - packEnd.length - 4, 4).getUint32(0, true)
}

/** The list at the end of these bytes. Null: they are too few, or damaged. */
export function listIn(hash: Hash, end: Uint8Array): Uint8Array | null {
  const size = listBytesOf(end)
  if (size === null || end.length < size + packTailBytes) return null
  const list = end.slice(end.length - packTailBytes - size, end.length - packTailBytes)
  const digest = end.subarray(end.length - packTailBytes, end.length - packTailBytes + digestBytes)
  return equalBytes(hash(list), digest) ? list : null
}

/** Throws MALFORMED. */
export function decodeList(list: Uint8Array): PackList {
  const reader = new ByteReader(list)
  const count = reader.integer()
  const since = reader.integer()
  if (count > reader.remaining / digestBytes) throw malformed('the list of a pack')
  const digests = new Uint8Array(count * digestBytes)
  const sizes = new Uint32Array(count)
  const offsets = new Uint32Array(count)
  const ats = new Float64Array(count)
  for (let place = 0, offset = 0; place < count; place++) {
    digests.set(reader.raw(digestBytes), place * digestBytes)
    sizes[place] = reader.integer()
    offsets[place] = offset
    ats[place] = since + reader.integer()
    offset += sizes[place]!
  }
  return { count, digests, sizes, offsets, ats }
}

export function encodeNotes(hash: Hash, { packs, touches, drops }: Notes): Uint8Array {
  const writer = new ByteWriter(1024)
  writer.integer(packs.length)
  for (const { id, bytes, list } of packs) {
    writer.text(id)
    writer.integer(bytes)
    writer.sized(list)
  }
  writer.integer(touches.length)
  for (const { digest, at } of touches) {
    writer.raw(digest)
    writer.integer(at)
  }
  writer.integer(drops.length)
  for (const { pack, places } of drops) {
    writer.text(pack)
    writer.integer(places.length)
    for (const { place, before } of places) {
      writer.integer(place)
      writer.integer(before)
    }
  }
  const body = writer.view()
  const all = new Uint8Array(notesStart.length + body.length + digestBytes)
  all.set(notesStart)
  all.set(body, notesStart.length)
  all.set(hash(body), notesStart.length + body.length)
  return all
}

/** Throws MALFORMED if they are damaged. */
export function decodeNotes(hash: Hash, bytes: Uint8Array): Notes {
  const body = bytes.subarray(notesStart.length, bytes.length - digestBytes)
  const isOurs = bytes.length >= notesStart.length + digestBytes && equalBytes(bytes.subarray(0, 4), notesStart)
  if (!isOurs || !equalBytes(hash(body), bytes.subarray(bytes.length - digestBytes))) throw malformed('notes on packs')
  const reader = new ByteReader(body)
  const packs = many(reader, () => ({
    id: reader.text(),
    bytes: reader.integer(),
    list: reader.raw(reader.integer()).slice(),
  }))
  const touches = many(reader, () => ({ digest: reader.raw(digestBytes).slice(), at: reader.integer() }))
  const drops = many(reader, () => ({
    pack: reader.text(),
    places: many(reader, () => ({ place: reader.integer(), before: reader.integer() })),
  }))
  return { packs, touches, drops }
}

function many<T>(reader: ByteReader, read: () => T): T[] {
  const count = reader.integer()
  // Each takes at least a byte: a forged count is detected before anything is allocated.
  if (count > reader.remaining) throw malformed('notes on packs')
  return Array.from({ length: count }, read)
}

function malformed(what: string): RepriseError {
  return new RepriseError('MALFORMED', `the bytes are not ${what} of this format`)
}
