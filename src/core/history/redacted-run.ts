// A run with erased entries. Its bytes no longer yield its digest, so it stores the digests that can no longer be computed,
// and has its own check instead of the chain:
//
//   run   = version(byte 3) first(integer) epoch(integer) time(integer, ms) count(integer)
//           digest(32 bytes; of history after each entry but the last) check(32 bytes) entry*
//   check = H(digest before the run ++ digest after it ++ the run's bytes with a check of zeros)
//
// The check detects damage, and binds the run to its place. It does not prove who changed the run: erasures are recorded
// elsewhere (engine/history/erasures.ts), and a run whose check is not recorded there is damaged.

import { ByteReader, integerSize, writeInteger } from '../bytes.ts'
import { type Digest, equalBytes } from '../coordinate.ts'
import { RepriseError } from '../errors.ts'
import type { EntryRun, Hash } from '../store/ports.ts'

export const formatRedacted = 3
const digestBytes = 32

export function isRedacted(bytes: Uint8Array): boolean {
  return bytes[0] === formatRedacted
}

/** The reader must be after the time of the run. */
export function skipDigests(reader: ByteReader): void {
  const count = reader.integer()
  if (count < 1) throw new RepriseError('MALFORMED', 'a run without entries')
  reader.raw(count * digestBytes)
}

/** The digests of history after each entry but the last. */
export function digestsIn(bytes: Uint8Array): Digest[] {
  const { digests } = open(bytes)
  return digests
}

/** The check under which the erasure is recorded. */
export function checkIn(bytes: Uint8Array): Digest {
  const { checkAt } = open(bytes)
  return bytes.slice(checkAt, checkAt + digestBytes)
}

export function isIntact(hash: Hash, before: Digest, run: EntryRun): boolean {
  try {
    const { checkAt } = open(run.bytes)
    const stored = run.bytes.subarray(checkAt, checkAt + digestBytes)
    return equalBytes(checkOf(hash, before, run.digest, run.bytes, checkAt), stored)
  } catch (error) {
    if (error instanceof RepriseError) return false
    throw error
  }
}

/** `start` holds the first bytes up to and including the time, with the version of a redacted run. */
export function packRedacted(
  hash: Hash,
  before: Digest,
  start: Uint8Array,
  digests: readonly Digest[],
  entries: Uint8Array,
): { readonly digest: Digest; readonly bytes: Uint8Array } {
  const digest = digests.at(-1)!
  const tableAt = start.length + integerSize(digests.length)
  const checkAt = tableAt + (digests.length - 1) * digestBytes
  const bytes = new Uint8Array(checkAt + digestBytes + entries.length)
  bytes.set(start)
  writeInteger(bytes, start.length, digests.length)
  for (const [i, each] of digests.slice(0, -1).entries()) bytes.set(each, tableAt + i * digestBytes)
  bytes.set(entries, checkAt + digestBytes)
  bytes.set(checkOf(hash, before, digest, bytes, checkAt), checkAt)
  return { digest, bytes }
}

/** The part up to and including `last`, whose entry ends at offset `end`. */
export function sliceRedacted(hash: Hash, run: EntryRun, before: Digest, last: number, end: number): EntryRun {
  const { startEnd, digests, checkAt } = open(run.bytes)
  const count = last - run.first + 1
  const entries = run.bytes.subarray(checkAt + digestBytes, end)
  const start = run.bytes.subarray(0, startEnd)
  return { first: run.first, count, ...packRedacted(hash, before, start, digests.slice(0, count), entries) }
}

function open(bytes: Uint8Array) {
  const reader = new ByteReader(bytes)
  if (reader.byte() !== formatRedacted) throw new RepriseError('MALFORMED', 'no entry of this run was erased')
  for (let i = 0; i < 3; i++) reader.integer()
  const startEnd = reader.offset
  const count = reader.integer()
  const digests: Digest[] = []
  for (let i = 1; i < count; i++) digests.push(reader.raw(digestBytes).slice())
  const checkAt = reader.offset
  reader.raw(digestBytes)
  return { startEnd, digests, checkAt }
}

function checkOf(hash: Hash, before: Digest, after: Digest, bytes: Uint8Array, checkAt: number): Digest {
  const joined = new Uint8Array(before.length + after.length + bytes.length)
  joined.set(before)
  joined.set(after, before.length)
  joined.set(bytes, before.length + after.length)
  joined.fill(0, before.length + after.length + checkAt, before.length + after.length + checkAt + digestBytes)
  return hash(joined)
}
