// Reads all redundancy and checks its digests: nothing else reads it until it is needed.

import { type Digest, equalBytes, toHex } from '../../../core/coordinate.ts'
import type { Blobs, Hash } from '../../../core/store/ports.ts'
import { keysOf, loadGroups, readParity, type StoredGroup } from './groups.ts'
import { idOf, kinds, listKind, withoutDigest } from './keys.ts'

export interface DamagedRedundancy {
  readonly key: Digest
  readonly what: string
}

function timesNamed(groups: readonly StoredGroup[], digest: Digest): number {
  return groups.filter(({ members }) => members.some((member) => equalBytes(member.digest, digest))).length
}

/** The damaged parts, with name and description. */
export async function inspectRedundancy(blobs: Blobs, hash: Hash): Promise<DamagedRedundancy[]> {
  const damaged: DamagedRedundancy[] = []
  const groups = await loadGroups(blobs, hash)
  const sound = new Set(groups.map((group) => toHex(keysOf(group)[0])))
  for (const { digest } of await listKind(blobs, kinds.group)) {
    if (!sound.has(toHex(digest))) {
      damaged.push({ key: digest, what: `the list of parity group ${toHex(idOf(digest))}` })
    }
  }
  for (const group of groups) {
    const [, key] = keysOf(group)
    if (await readParity(blobs, hash, group)) continue
    // A place that stores and deletes files in no order may keep a list whose parity is no longer needed.
    const isLeftover =
      !(await blobs.get([key]))[0] && group.members.every(({ digest }) => timesNamed(groups, digest) > 1)
    if (!isLeftover) damaged.push({ key, what: `the parity of group ${toHex(group.id)}` })
  }
  const parities = new Set(groups.map((group) => toHex(keysOf(group)[1])))
  for (const { digest } of await listKind(blobs, kinds.parity)) {
    if (parities.has(toHex(digest))) continue
    const [stored] = await blobs.get([digest])
    const what = `the parity of ${toHex(idOf(digest))}, which no list names`
    if (!withoutDigest(hash, stored ?? null)) damaged.push({ key: digest, what })
  }
  const lines = [...(await listKind(blobs, kinds.line)), ...(await listKind(blobs, kinds.spare))]
  for (const { digest } of lines) {
    const [stored] = await blobs.get([digest])
    const what = `the copy ${toHex(idOf(digest))} of a line of the catalog`
    if (!withoutDigest(hash, stored ?? null)) damaged.push({ key: digest, what })
  }
  for (const { digest } of await listKind(blobs, kinds.copy)) {
    const [stored] = await blobs.get([digest])
    const start = idOf(digest)
    const isSound = stored && equalBytes(hash(stored).subarray(0, start.length), start)
    if (!isSound) damaged.push({ key: digest, what: `the copy of chunk ${toHex(start)}` })
  }
  return damaged
}
