// The dedupe key of an erased entry: a hash in its place, so that what was applied once is not applied again, and nobody can
// read what it was. Whoever knows the key finds it.

import { toHex } from '../coordinate.ts'
import type { Hash } from '../store/ports.ts'

const prefix = '$erased:'
/** Among the keys of a timeline that has such ones: then, and only then, is it worth a hash to look for one. */
export const erasedKeysMark = '$erased'

/** A key that was erased before stays as it is. */
export function erasedKey(hash: Hash, key: string): string {
  if (isErasedKey(key)) return key
  return prefix + toHex(hash(new TextEncoder().encode(`reprise/1 erased key\0${key}`)))
}

export function isErasedKey(key: string): boolean {
  return key.startsWith(prefix)
}
