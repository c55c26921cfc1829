// The names of redundancy among the chunks. They all start with seven bytes 255, which no chunk's digest does in
// practice, and so sort last in every list: lists of chunks omit them.
//   name = 255 * 7, kind(byte), 24 bytes
//   kind 1: a parity group       its id; the bytes are the group (core/checkpoint/parity.ts) and their digest
//   kind 2: its parity           the same id; its digest follows here too
//   kind 3: the copy of a chunk  the start of its digest: for a chunk that can neither be read nor replaced in place
//   kind 4: a catalog entry      12 bytes of the digest of the timeline, 12 of that of the checkpoint's id (catalog-copies.ts)
//   kind 5: a spare entry        the digest of the timeline

import { ByteWriter } from '../../../core/bytes.ts'
import { type Digest, equalBytes } from '../../../core/coordinate.ts'
import { tagBytes } from '../../../core/store/blobs.ts'
import type { Blobs, ChunkRow, Hash } from '../../../core/store/ports.ts'
import { isChunk } from '../seal/sealing-key.ts'

const tag = 255
const idBytes = 24
const digestBytes = 32
const pageRows = 500

export const kinds = { group: 1, parity: 2, copy: 3, line: 4, spare: 5 } as const
export type Kind = (typeof kinds)[keyof typeof kinds]

export function keyOf(kind: Kind, id: Uint8Array): Digest {
  const key = new Uint8Array(digestBytes).fill(tag, 0, tagBytes)
  key[tagBytes] = kind
  key.set(id.subarray(0, idBytes), tagBytes + 1)
  return key
}

export function idOf(key: Digest): Uint8Array {
  return key.subarray(tagBytes + 1)
}

/** All names of one kind whose id starts with these bytes, in order. */
export async function listKind(blobs: Blobs, kind: Kind, start: Uint8Array = new Uint8Array()): Promise<ChunkRow[]> {
  const prefix = keyOf(kind, start).subarray(0, tagBytes + 1 + start.length)
  const found: ChunkRow[] = []
  for (let after = keyOf(kind, start); ; after = found[found.length - 1]!.digest) {
    const page = await blobs.list(after, pageRows)
    const own = page.filter(({ digest }) => equalBytes(digest.subarray(0, prefix.length), prefix))
    found.push(...own)
    if (page.length < pageRows || own.length < page.length) return found
  }
}

/**
 * They start as a chunk in plain text does: a store with keys encrypts them under the current one
 * (engine/storage/seal/wrap.ts).
 */
const start = isChunk

/** Appends the digest to bytes that are not named by it. */
export function withDigest(hash: Hash, bytes: Uint8Array): Uint8Array {
  const writer = new ByteWriter(1 + bytes.length + digestBytes)
  writer.byte(start)
  writer.raw(bytes)
  writer.raw(hash(bytes))
  return writer.take()
}

/** Null if the bytes do not match their digest. */
export function withoutDigest(hash: Hash, stored: Uint8Array | null): Uint8Array | null {
  if (stored === null || stored.length < 1 + digestBytes || stored[0] !== start) return null
  // A copy, so that words can be xored regardless of its alignment.
  const bytes = new Uint8Array(stored.subarray(1, stored.length - digestBytes))
  return equalBytes(hash(bytes), stored.subarray(stored.length - digestBytes)) ? bytes : null
}
