// Parity groups as stored: the list of members under one name, the parity under another, both in a stripe without
// members.
// Each is checked against its digest before it is used.

import {
  decodeGroup,
  encodeGroup,
  type Group,
  type ParityBuilder,
  stripeOfParity,
} from '../../../core/checkpoint/parity.ts'
import { type Digest, equalBytes } from '../../../core/coordinate.ts'
import { isReprise } from '../../../core/errors.ts'
import type { Blobs, Hash, StoredChunk } from '../../../core/store/ports.ts'
import { idOf, keyOf, kinds, listKind, withDigest, withoutDigest } from './keys.ts'

const readAtOnce = 64

export interface StoredGroup extends Group {
  readonly id: Uint8Array
}

/** The chunks to put for a group. */
export function storedForm(hash: Hash, builder: ParityBuilder): { group: StoredGroup; chunks: readonly StoredChunk[] } {
  const { parity } = builder
  const plain: Group = { members: [...builder.members], parityBytes: parity.length, parityDigest: hash(parity) }
  const encoded = encodeGroup(plain)
  const group = { ...plain, id: hash(encoded).slice(0, 24) }
  const [record, other] = keysOf(group)
  // The list is put last and deleted first: a killed process then leaves a parity without a list, never a list without
  // its parity.
  const chunks = [
    { digest: other, bytes: withDigest(hash, parity), stripe: stripeOfParity },
    { digest: record, bytes: withDigest(hash, encoded), stripe: stripeOfParity },
  ]
  return { group, chunks }
}

export function keysOf({ id }: Pick<StoredGroup, 'id'>): readonly [Digest, Digest] {
  return [keyOf(kinds.group, id), keyOf(kinds.parity, id)]
}

/** The groups with an intact list. A damaged list protects nothing, and is replaced when the store is tended. */
export async function loadGroups(blobs: Blobs, hash: Hash): Promise<StoredGroup[]> {
  const keys = (await listKind(blobs, kinds.group)).map((row) => row.digest)
  const groups: StoredGroup[] = []
  for (let at = 0; at < keys.length; at += readAtOnce) {
    const some = keys.slice(at, at + readAtOnce)
    const found = await blobs.get(some)
    for (const [i, stored] of found.entries()) {
      const encoded = withoutDigest(hash, stored)
      const group = encoded && decoded(encoded)
      if (group) groups.push({ ...group, id: new Uint8Array(idOf(some[i]!)) })
    }
  }
  return groups
}

/** Null if it is damaged or missing. */
export async function readParity(blobs: Blobs, hash: Hash, group: StoredGroup): Promise<Uint8Array | null> {
  const [stored] = await blobs.get([keysOf(group)[1]])
  const parity = withoutDigest(hash, stored ?? null)
  return parity && equalBytes(hash(parity), group.parityDigest) ? parity : null
}

/** Null for a group of a later format, which only later versions use. */
function decoded(encoded: Uint8Array): Group | null {
  try {
    return decodeGroup(encoded)
  } catch (error) {
    if (isReprise(error, 'MALFORMED', 'INCOMPATIBLE_VERSION')) return null
    throw error
  }
}
