// Erasing entries of a run: others stand in their place, and everything else stays as it was, to the byte: sequences,
// times, the entries beside them, and the digests of history after each of them (redacted.ts has the format).

import { ByteWriter, textBytesMax } from './bytes.ts'
import type { Digest } from './coordinate.ts'
import { chainDigest, type EntryDraft, eachEntry, readStart, type StoredEntry, writeEntry } from './entry-run.ts'
import type { EntryRun, Hash } from './ports.ts'
import { digestsIn, formatRedacted, isRedacted, packRedacted } from './redacted.ts'

/** What stands in the place of an erased entry, where nothing else may stay of it: its data says the type it had. */
export const erasedType = '$erased'

/** `instead` gives what stays of an entry, or null: it is not erased. */
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
