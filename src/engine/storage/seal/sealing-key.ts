// The key with which an envelope (seal.ts) was sealed, read without opening it.

import { ByteReader } from '../../../core/bytes.ts'
import { saltBytes } from './keys.ts'

export const isCompressed = 1
export const isEncrypted = 2
export const isChecked = 4
export const isChunk = 8
export const allFlags = 15
export const crcBytes = 4

/** The key id and, except for a chunk, the salt. */
export type SealName = 'plain' | { readonly id: string; readonly salt: Uint8Array | null }

/** Null: not an envelope. */
export function sealNameOf(envelope: Uint8Array): SealName | null {
  const flags = envelope[0]
  if (flags === undefined || (flags & ~allFlags) !== 0) return null
  if (!(flags & isEncrypted)) return 'plain'
  const reader = new ByteReader(envelope, 1)
  if (flags & isChecked) reader.skip(crcBytes)
  if (flags & isCompressed) {
    reader.byte()
    reader.integer()
  }
  const id = reader.text()
  return { id, salt: flags & isChunk ? null : reader.raw(saltBytes).slice() }
}
