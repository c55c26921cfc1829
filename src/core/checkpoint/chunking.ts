// Content-defined chunking: the bytes around a cut decide its place, not their offset, so a change moves only the cuts
// near it, and the chunks of unchanged content keep their digests.
// The method is a gear rolling hash with normalised cut masks: a cut is unlikely before the average size and likely after
// it, so that sizes cluster around the average. The table and the masks are part of the format: with different ones, stored
// chunks would stay readable, but new chunks would not match them.

import { assert } from '../assert.ts'

export interface ChunkSizes {
  readonly minBytes: number
  /** A power of two. */
  readonly averageBytes: number
  readonly maxBytes: number
}

export const defaultChunkSizes: ChunkSizes = { minBytes: 4 * 1024, averageBytes: 16 * 1024, maxBytes: 64 * 1024 }

/** How far the masks deviate from the average on each side, in bits. */
const normalisationBits = 2

/**
 * The end of the chunk that starts at `start`: the next cut, or the end of the bytes.
 * @example for (let at = 0; at < bytes.length; at = nextCut(bytes, at)) …
 */
export function nextCut(bytes: Uint8Array, start: number, sizes: ChunkSizes = defaultChunkSizes): number {
  assert(start >= 0 && start < bytes.length, 'a chunk starts inside the bytes')
  assert(
    sizes.minBytes >= 1 && sizes.minBytes < sizes.averageBytes && sizes.averageBytes < sizes.maxBytes,
    'chunk sizes rise from minimum through average to maximum',
  )
  if (bytes.length - start <= sizes.minBytes) return bytes.length
  const bits = 31 - Math.clz32(sizes.averageBytes)
  const end = Math.min(bytes.length, start + sizes.maxBytes)
  const middle = Math.min(end, start + sizes.averageBytes)
  const hardMask = highBits(bits + normalisationBits)
  const easyMask = highBits(bits - normalisationBits)
  const table = gearTable
  let hash = 0
  let at = start + sizes.minBytes
  for (; at < middle; at++) {
    hash = ((hash << 1) + table[bytes[at]!]!) | 0
    if ((hash & hardMask) === 0) return at + 1
  }
  for (; at < end; at++) {
    hash = ((hash << 1) + table[bytes[at]!]!) | 0
    if ((hash & easyMask) === 0) return at + 1
  }
  return end
}

/** All chunks, as views into the bytes. @example cutAll(new Uint8Array(3)).length // 1 */
export function cutAll(bytes: Uint8Array, sizes: ChunkSizes = defaultChunkSizes): Uint8Array[] {
  const chunks: Uint8Array[] = []
  for (let at = 0; at < bytes.length; ) {
    const end = nextCut(bytes, at, sizes)
    chunks.push(bytes.subarray(at, end))
    at = end
  }
  return chunks
}

/** The high bits depend on the last 32 bytes, the low bits only on the newest, so the mask covers the high bits. */
function highBits(count: number): number {
  return (-1 << (32 - Math.min(30, Math.max(1, count)))) | 0
}

/** 256 fixed pseudo-random words (a xorshift-multiply of the index); they must never change, see above. */
const gearTable: Int32Array = Int32Array.from({ length: 256 }, (_, index) => {
  let word = Math.imul(index + 1, 0x9e3779b1)
  word = Math.imul(word ^ (word >>> 16), 0x85ebca6b)
  word = Math.imul(word ^ (word >>> 13), 0xc2b2ae35)
  return word ^ (word >>> 16)
})
