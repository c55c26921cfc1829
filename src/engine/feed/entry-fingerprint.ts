// The fingerprint of an entry: distinguishes it from every other that had or will have its sequence, after a rollback, a
// restore, or a new life of its timeline. Keys of consumers and ids of commands contain it.

import { toHex } from '../../core/coordinate.ts'
import type { Entry } from '../model/entry.ts'
import type { Kernel } from '../storage/kernel.ts'

const fingerprintDigits = 24

/** The digest of a stored entry, before any upcaster. */
export function fingerprintOf(
  { hash, codec }: Pick<Kernel, 'hash' | 'codec'>,
  { epoch, type, version, time, key, data }: Entry,
): string {
  return toHex(hash(codec.encode([epoch, type, version, time, key, data]))).slice(0, fingerprintDigits)
}
