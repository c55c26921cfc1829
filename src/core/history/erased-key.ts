// The dedupe key of an erased entry: a hash takes its place, so that an entry that was applied once is not applied again,
// while the key itself cannot be read. A caller that knows the key still finds it.

import { toHex } from '../coordinate.ts'
import type { Hash } from '../store/ports.ts'

const prefix = '$erased:'
/** One of the keys of a timeline with erased keys: only then does a lookup need to compute the hash. */
export const erasedKeysMark = '$erased'

/** An already erased key is returned unchanged. */
export function erasedKey(hash: Hash, key: string): string {
  if (isErasedKey(key)) return key
  return prefix + toHex(hash(new TextEncoder().encode(`reprise/1 erased key\0${key}`)))
}

export function isErasedKey(key: string): boolean {
  return key.startsWith(prefix)
}
