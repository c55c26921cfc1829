// Erases entries of a run: others replace them, and everything else stays the same to the byte: sequences, times, the other
// entries, and the digests of history after each of them (redacted-run.ts defines the format).

import { ByteWriter, textBytesMax } from '../bytes.ts'
import type { Digest } from '../coordinate.ts'
import type { EntryRun, Hash } from '../store/ports.ts'
import { chainDigest, type EntryDraft, eachEntry, readStart, type StoredEntry, writeEntry } from './entry-run.ts'
import { digestsIn, formatRedacted, isRedacted, packRedacted } from './redacted-run.ts'

/** The type of an entry that replaces an erased one of which nothing else may stay: its data names the original type. */
export const erasedType = '$erased'

/** `instead` returns the replacement of an entry, or null: the entry is not erased. */
export function redactRun(
  hash: Hash,
  run: EntryRun,
  before: Digest,
  instead: (entry: StoredEntry) => Omit<EntryDraft, 'isErased'> | null,
): EntryRun {
  const digests: Digest[] = isRedacted(run.bytes) ? [...digestsIn(run.bytes), run.digest] : []
  const isFirst = digests.length === 0
  const entries = new ByteWriter(run.bytes.length)
  const { reader, first, epoch, time } = readStart(run.bytes)
  let from = reader.offset
  eachEntry(run, (entry, end) => {
    if (isFirst) digests.push(chainDigest(hash, before, run.bytes.subarray(0, end)))
    const draft = instead(entry)
    entries.raw(draft ? encode(time, { ...draft, isErased: true }) : run.bytes.subarray(from, end))
    from = end
  })
  const start = new ByteWriter(32)
  start.byte(formatRedacted)
  for (const each of [first, epoch, time]) start.integer(each)
  return { first, count: run.count, ...packRedacted(hash, before, start.view(), digests, entries.view()) }
}

function encode(time: number, draft: EntryDraft): Uint8Array {
  const { type, key, data } = draft
  const bytes = new Uint8Array(textBytesMax(type) + (key === undefined ? 0 : textBytesMax(key)) + data.length + 64)
  return bytes.subarray(0, writeEntry(bytes, 0, time, draft))
}

/**
 * Replaces an unreadable run by entries that record the loss, from `before` to the digest that the next run follows;
 * null: that digest is not known.
 */
export function lostRun(
  hash: Hash,
  at: { readonly before: Digest; readonly first: number; readonly epoch: number; readonly time: number },
  drafts: readonly EntryDraft[],
  after: Digest | null,
): EntryRun {
  const entries = new ByteWriter(64 * drafts.length)
  const digests: Digest[] = []
  for (const draft of drafts) {
    entries.raw(encode(at.time, { ...draft, isErased: true }))
    digests.push(chainDigest(hash, at.before, entries.view()))
  }
  return packBound(hash, at, digests, entries.view(), after)
}

/**
 * A run whose bytes are intact but which now follows another digest, since the history before it is lost. Its entries stay;
 * its digests can no longer be computed from that history, so the run stores them.
 */
export function reboundRun(
  hash: Hash,
  run: Pick<EntryRun, 'first' | 'count' | 'bytes'>,
  before: Digest,
  after: Digest | null,
): EntryRun {
  const { reader, first, epoch, time } = readStart(run.bytes)
  const known = isRedacted(run.bytes) ? digestsIn(run.bytes) : []
  const digests: Digest[] = []
  eachEntry({ ...run, digest: before }, (_, end) => {
    digests.push(known[digests.length] ?? chainDigest(hash, before, run.bytes.subarray(0, end)))
  })
  return packBound(hash, { before, first, epoch, time }, digests, run.bytes.subarray(reader.offset), after)
}

function packBound(
  hash: Hash,
  at: { readonly before: Digest; readonly first: number; readonly epoch: number; readonly time: number },
  digests: readonly Digest[],
  entries: Uint8Array,
  after: Digest | null,
): EntryRun {
  const start = new ByteWriter(32)
  start.byte(formatRedacted)
  for (const each of [at.first, at.epoch, at.time]) start.integer(each)
  const all = after ? [...digests.slice(0, -1), after] : digests
  return { first: at.first, count: digests.length, ...packRedacted(hash, at.before, start.view(), all, entries) }
}
