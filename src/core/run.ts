// A run: the entries of one timeline that became durable in the same moment, packed together. It is the unit of
// storage and of the digest chain; sequences still belong to single entries.
//
// Format (bytes.ts has the small pieces):
//   run   = version(byte 1) first(integer) epoch(integer) time(integer, ms) entry*
//   entry = size(integer, of what follows) type(text) version(integer) delay(integer, ms after the run's time)
//           flags(byte; 1 = has a key) [key(text)] data(rest; an envelope, see engine/seal)
//
// Chain: digest(seq) = H(digest before the run ++ the run's bytes up to and including entry seq), and
// digest(0) = H("reprise/1" ++ timeline id). So one hash checks a whole run, any prefix of a run has a digest of its
// own, and the digest of the head vouches for every byte below it, for their order and for whose they are.

import { assert } from './assert.ts'
import { ByteReader, ByteWriter } from './bytes.ts'
import { type Digest, equalBytes, type TimelineId, toHex } from './coordinate.ts'
import { RepriseError } from './errors.ts'
import type { Hash, Run } from './ports.ts'

const formatVersion = 1
const hasKey = 1

/** An entry as it goes in: its data already sealed. */
export interface EntryDraft {
  readonly type: string
  readonly version: number
  readonly time: number
  readonly key?: string | undefined
  readonly data: Uint8Array
}

/** An entry as it comes out: its data still sealed. */
export interface StoredEntry extends EntryDraft {
  readonly seq: number
  readonly epoch: number
}

export function originDigest(hash: Hash, timeline: TimelineId): Digest {
  const writer = new ByteWriter(64)
  writer.text('reprise/1')
  writer.text(timeline)
  return hash(writer.take())
}

export function chainDigest(hash: Hash, before: Digest, runBytes: Uint8Array): Digest {
  const joined = new Uint8Array(before.length + runBytes.length)
  joined.set(before)
  joined.set(runBytes, before.length)
  return hash(joined)
}

/** @example packRun(hash, { before: head.digest, first: head.seq + 1, epoch: 3 }, [draft]) */
export function packRun(
  hash: Hash,
  at: { readonly before: Digest; readonly first: number; readonly epoch: number },
  drafts: readonly EntryDraft[],
): Run {
  assert(drafts.length > 0, 'a run has at least one entry')
  assert(at.first >= 1, 'sequences start at 1')
  let time = Number.MAX_SAFE_INTEGER
  let size = at.before.length + 32
  for (const draft of drafts) {
    time = Math.min(time, draft.time)
    // Room for the worst case: text of three bytes a character, integers of eight.
    size += draft.data.length + 3 * (draft.type.length + (draft.key?.length ?? 0)) + 48
  }
  // The digest before comes first, so that the run is hashed where it was written, without a copy.
  const writer = new ByteWriter(size)
  writer.raw(at.before)
  writer.byte(formatVersion)
  writer.integer(at.first)
  writer.integer(at.epoch)
  writer.integer(time)
  const head = new ByteWriter(64)
  for (const draft of drafts) {
    head.reset()
    head.text(draft.type)
    head.integer(draft.version)
    head.integer(draft.time - time)
    head.byte(draft.key === undefined ? 0 : hasKey)
    if (draft.key !== undefined) head.text(draft.key)
    writer.integer(head.length + draft.data.length)
    writer.raw(head.view())
    writer.raw(draft.data)
  }
  const chained = writer.view()
  return { first: at.first, count: drafts.length, digest: hash(chained), bytes: chained.subarray(at.before.length) }
}

/** Checks that the run follows `before`, is whole, and is what it says it is. Throws HISTORY_DAMAGED otherwise. */
export function verifyRun(
  hash: Hash,
  timeline: string,
  run: Run,
  before: { readonly seq: number; readonly digest: Digest },
): void {
  if (run.first !== before.seq + 1) {
    throw new RepriseError('HISTORY_DAMAGED', `history of ${timeline} has a gap after sequence ${before.seq}`, {
      timeline,
      seq: before.seq + 1,
      found: run.first,
    })
  }
  const digest = chainDigest(hash, before.digest, run.bytes)
  if (!equalBytes(digest, run.digest)) {
    throw new RepriseError(
      'HISTORY_DAMAGED',
      `history of ${timeline} does not match its digest at sequence ${run.first}`,
      {
        timeline,
        seq: run.first,
        last: run.first + run.count - 1,
        expected: toHex(run.digest),
        found: toHex(digest),
      },
    )
  }
}

/** The entries of a verified run. */
export function unpackRun(run: Run): StoredEntry[] {
  const entries: StoredEntry[] = []
  eachEntry(run, (entry) => {
    entries.push(entry)
  })
  return entries
}

/** The part of a run up to and including `last`, with the digest of history there. */
export function sliceRun(hash: Hash, run: Run, before: Digest, last: number): Run {
  assert(last >= run.first && last < run.first + run.count, 'the slice ends inside the run')
  if (last === run.first + run.count - 1) return run
  let end = 0
  eachEntry(run, (entry, offset) => {
    if (entry.seq === last) end = offset
  })
  const bytes = run.bytes.subarray(0, end)
  return { first: run.first, count: last - run.first + 1, digest: chainDigest(hash, before, bytes), bytes }
}

export function lastSeq(run: Run): number {
  return run.first + run.count - 1
}

/** Visits the entries of a verified run in order, each with the offset where it ends. */
export function eachEntry(run: Run, visit: (entry: StoredEntry, endOffset: number) => void): void {
  const reader = new ByteReader(run.bytes)
  const version = reader.byte()
  if (version !== formatVersion) {
    throw new RepriseError('INCOMPATIBLE_VERSION', `run format ${version} is not known`, {
      version,
      known: formatVersion,
    })
  }
  const first = reader.integer()
  const epoch = reader.integer()
  const time = reader.integer()
  if (first !== run.first)
    throw new RepriseError('MALFORMED', `a run says it starts at ${first}, its place says ${run.first}`)
  let seq = first
  while (reader.remaining > 0) {
    const size = reader.integer()
    const end = reader.offset + size
    const type = reader.text()
    const entryVersion = reader.integer()
    const delay = reader.integer()
    const flags = reader.byte()
    const key = flags & hasKey ? reader.text() : undefined
    if (end < reader.offset) throw new RepriseError('MALFORMED', 'an entry is shorter than its own header')
    const data = reader.raw(end - reader.offset)
    visit({ seq, epoch, type, version: entryVersion, time: time + delay, key, data }, reader.offset)
    seq += 1
  }
  if (seq !== run.first + run.count) {
    throw new RepriseError('MALFORMED', `a run holds ${seq - run.first} entries where ${run.count} were promised`)
  }
}
