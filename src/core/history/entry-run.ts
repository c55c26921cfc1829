// A run: the entries of one timeline that became durable together, packed. It is the unit of storage and of the digest
// chain; sequences still belong to single entries.
//
// Format (bytes.ts defines the primitives):
//   run   = version(byte 1) first(integer) epoch(integer) time(integer, ms) entry*
//         | version(byte 2) first(integer) epoch(integer) time(integer, ms) nonce(8 bytes) entry*
//   entry = size(integer, of the rest) type(text) version(integer) delay(integer, ms after the run's time)
//           flags(byte; 1 = has a key, 2 = its key, or its type, is sealed along with the data: engine/storage/seal/entries.ts,
//           4 = the remainder of an erased entry)
//           [key(text)] data(rest; an envelope, see engine/storage/seal)
//
// Chain: digest(seq) = H(digest before the run ++ the run's bytes up to and including entry seq), and
// digest(0) = H("reprise/1" ++ timeline id). So one hash checks a whole run, every prefix of a run has its own digest,
// and the digest of the head vouches for every byte below it, for their order and for the timeline they belong to.
//
// Version 2 is for a run that takes the timeline in the same commit: several processes may then submit the same entries under
// the same epoch, and the nonce makes their digests differ, so that a lost answer is never mistaken for another process's.
// Version 3 is a run with erased entries: its bytes no longer yield its digest, and it is marked as such (redacted-run.ts).

import { assert } from '../assert.ts'
import { ByteReader, ByteWriter, integerSize, Slab, textBytesMax, writeInteger, writeText } from '../bytes.ts'
import { type Digest, equalBytes, type OperationId, type TimelineId, toHex } from '../coordinate.ts'
import { RepriseError } from '../errors.ts'
import type { EntryRun, Hash } from '../store/ports.ts'
import { formatRedacted, isIntact, isRedacted, skipDigests, sliceRedacted } from './redacted-run.ts'

const formatVersion = 1
const formatWithNonce = 2
export const nonceBytes = 8
export const hasKey = 1
const isHeadInside = 2
const isErased = 4
const operationBytes = 8
const digestBytesMax = 32
/** Room before the entries: the previous digest, the version, three integers, the nonce. */
export const startBytesMax = digestBytesMax + 1 + 3 * 8 + nonceBytes

interface EntryBody {
  readonly type: string
  readonly version: number
  readonly time: number
  readonly key?: string | undefined
  readonly data: Uint8Array
  /** The key, and possibly the type, is sealed with the data. */
  readonly isHeadInside?: boolean
  /** The entry replaces an erased one and holds the part of it that may stay. */
  readonly isErased?: boolean
}

/** An entry to be written: its data already sealed. */
export interface EntryDraft extends EntryBody {
  /** A byte before the data: the envelope of data that needs no more (engine/storage/seal). Saves a copy of the data. */
  readonly lead?: number
}

/** An entry as read: its data still sealed. */
export interface StoredEntry extends EntryBody {
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
  const size = before.length + runBytes.length
  const joined = size <= scratch.length ? scratch : new Uint8Array(size)
  joined.set(before)
  joined.set(runBytes, before.length)
  return hash(joined.subarray(0, size))
}

/** Used only within one call. */
const scratch = new Uint8Array(16 * 1024)

/** The place of a run in history. */
export interface RunPlace {
  readonly before: Digest
  readonly first: number
  readonly epoch: number
  readonly nonce?: Uint8Array | null
}

/** @example packEntries(hash, { before: head.digest, first: head.seq + 1, epoch: 3 }, [draft]) */
export function packEntries(hash: Hash, at: RunPlace, drafts: readonly EntryDraft[]): EntryRun {
  assert(drafts.length > 0, 'a run must have at least one entry')
  let time = Number.MAX_SAFE_INTEGER
  let sizeMax = startBytesMax
  for (const { type, key, data, time: entryTime } of drafts) {
    time = Math.min(time, entryTime)
    sizeMax += data.length + textBytesMax(type) + (key === undefined ? 0 : textBytesMax(key)) + 40
  }
  const room = slab.reserve(sizeMax)
  const { bytes } = slab
  const start = room + startBytesMax
  let end = start
  for (const draft of drafts) end = writeEntry(bytes, end, time, draft)
  slab.take(end)
  return makeRun(hash, at, { bytes, start, end, time }, drafts.length)
}

/**
 * Makes a run of packed entries, with `startBytesMax` of room before them: the start of the run and the previous digest are
 * written there, so that the run is hashed in place.
 */
export function makeRun(
  hash: Hash,
  { before, first, epoch, nonce }: RunPlace,
  packed: { readonly bytes: Uint8Array; readonly start: number; readonly end: number; readonly time: number },
  count: number,
): EntryRun {
  assert(first >= 1, 'sequences start at 1')
  assert(before.length <= digestBytesMax, 'there is room for the digest before')
  assert(!nonce || nonce.length === nonceBytes, 'a nonce has 8 bytes')
  const { bytes, start, end: endOfRun, time } = packed
  const startBytes = 1 + integerSize(first) + integerSize(epoch) + integerSize(time) + (nonce ? nonceBytes : 0)
  const from = start - startBytes
  const chainedFrom = from - before.length
  bytes.set(before, chainedFrom)
  bytes[from] = nonce ? formatWithNonce : formatVersion
  let end = writeInteger(bytes, from + 1, first)
  end = writeInteger(bytes, end, epoch)
  end = writeInteger(bytes, end, time)
  if (nonce) bytes.set(nonce, end)
  const digest = hash(bytes.subarray(chainedFrom, endOfRun))
  const run = { first, count, digest, bytes: bytes.subarray(from, endOfRun) }
  lastPacked = run
  lastBefore = before
  return run
}

/** A store usually checks the chain of the run that was just packed: the answer is known without a hash. */
let lastPacked: EntryRun | null = null
let lastBefore: Digest | null = null

/** The run's digest follows from the previous digest and the run's bytes. */
export function isChained(hash: Hash, before: Digest, run: EntryRun): boolean {
  if (lastPacked === run && equalBytes(lastBefore!, before)) return true
  return equalBytes(chainDigest(hash, before, run.bytes), run.digest)
}

const slab = new Slab(64 * 1024)
/** Bytes of most sizes. */
const sizeGuessBytes = 2

/** The size comes first but is known last: room is left for it, and the header moves if the guess was wrong. */
export function writeEntry(bytes: Uint8Array, start: number, time: number, draft: EntryDraft): number {
  const { type, version, time: entryTime, key, data, lead } = draft
  const inside = (draft.isHeadInside ? isHeadInside : 0) | (draft.isErased ? isErased : 0)
  const headStart = start + sizeGuessBytes
  let end = writeText(bytes, headStart, type)
  end = writeInteger(bytes, end, version)
  end = writeInteger(bytes, end, entryTime - time)
  bytes[end++] = (key === undefined ? 0 : hasKey) | inside
  if (key !== undefined) end = writeText(bytes, end, key)
  if (lead !== undefined) bytes[end++] = lead
  const size = end - headStart + data.length
  const shift = integerSize(size) - sizeGuessBytes
  if (shift !== 0) bytes.copyWithin(headStart + shift, headStart, end)
  writeInteger(bytes, start, size)
  bytes.set(data, end + shift)
  return end + shift + data.length
}

/**
 * The operation id of a commit that only appends this run. No other commit can have it: the digest covers all earlier
 * history, the epoch and the content. So a store can derive the id from the run and need not store it.
 */
export function appendOperation(digest: Digest): OperationId {
  // Unrolled: every append executes this, and concatenation takes six times as long.
  return String.fromCharCode(
    hexDigit(digest[0]! >> 4),
    hexDigit(digest[0]! & 15),
    hexDigit(digest[1]! >> 4),
    hexDigit(digest[1]! & 15),
    hexDigit(digest[2]! >> 4),
    hexDigit(digest[2]! & 15),
    hexDigit(digest[3]! >> 4),
    hexDigit(digest[3]! & 15),
    hexDigit(digest[4]! >> 4),
    hexDigit(digest[4]! & 15),
    hexDigit(digest[5]! >> 4),
    hexDigit(digest[5]! & 15),
    hexDigit(digest[6]! >> 4),
    hexDigit(digest[6]! & 15),
    hexDigit(digest[7]! >> 4),
    hexDigit(digest[7]! & 15),
  ) as OperationId
}

export function isAppendOperation(operation: string, digest: Digest): boolean {
  if (operation.length !== 2 * operationBytes) return false
  for (let i = 0; i < operationBytes; i++) {
    const byte = digest[i]!
    if (operation.charCodeAt(2 * i) !== hexDigit(byte >> 4)) return false
    if (operation.charCodeAt(2 * i + 1) !== hexDigit(byte & 15)) return false
  }
  return true
}

function hexDigit(value: number): number {
  return value < 10 ? 48 + value : 87 + value
}

/** Checks that the run follows `before`, is complete, and matches its digest. Throws HISTORY_DAMAGED otherwise. */
export function verifyEntries(
  hash: Hash,
  timeline: string,
  run: EntryRun,
  before: { readonly seq: number; readonly digest: Digest },
): void {
  if (run.first !== before.seq + 1) {
    throw new RepriseError('HISTORY_DAMAGED', `history of ${timeline} has a gap after sequence ${before.seq}`, {
      timeline,
      seq: before.seq + 1,
      found: run.first,
    })
  }
  if (isRedacted(run.bytes)) {
    if (isIntact(hash, before.digest, run)) return
    const what = `history of ${timeline} at sequence ${run.first}, with erased entries, does not match its checksum`
    throw new RepriseError('HISTORY_DAMAGED', what, { timeline, seq: run.first, last: lastSeq(run) })
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
export function unpackEntries(run: EntryRun): StoredEntry[] {
  const entries: StoredEntry[] = []
  eachEntry(run, (entry) => {
    entries.push(entry)
  })
  return entries
}

/** The part of a run up to and including `last`, with the digest of history at that point. */
export function sliceEntries(hash: Hash, run: EntryRun, before: Digest, last: number): EntryRun {
  assert(last >= run.first && last < run.first + run.count, 'the slice ends inside the run')
  if (last === run.first + run.count - 1) return run
  let end = 0
  eachEntry(run, (entry, offset) => {
    if (entry.seq === last) end = offset
  })
  if (isRedacted(run.bytes)) return sliceRedacted(hash, run, before, last, end)
  const bytes = run.bytes.subarray(0, end)
  return { first: run.first, count: last - run.first + 1, digest: chainDigest(hash, before, bytes), bytes }
}

export function lastSeq(run: EntryRun): number {
  return run.first + run.count - 1
}

/** Visits the entries of a verified run in order, each with the offset where it ends. */
export function eachEntry(run: EntryRun, visit: (entry: StoredEntry, endOffset: number) => void): void {
  const { first, count } = visitEntries(run.bytes, visit, run.first)
  if (count !== run.count) {
    throw new RepriseError('MALFORMED', `a run holds ${count} entries where ${run.count} were promised`)
  }
  assert(first === run.first, 'a run is visited where it starts')
}

/** The same for bytes alone, whose number of entries is not known. */
export function visitEntries(
  bytes: Uint8Array,
  visit: (entry: StoredEntry, endOffset: number) => void,
  expectedFirst?: number,
): { readonly first: number; readonly count: number } {
  const { reader, first, epoch, time } = readStart(bytes)
  if (expectedFirst !== undefined && first !== expectedFirst)
    throw new RepriseError('MALFORMED', `a run starts at ${first}, but its position implies ${expectedFirst}`)
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
    const entry = { seq, epoch, type, version: entryVersion, time: time + delay, key, data }
    const marked = flags & (isHeadInside | isErased)
    visit(marked ? { ...entry, ...marksOf(flags) } : entry, reader.offset)
    seq += 1
  }
  return { first, count: seq - first }
}

/** Reads the start of a run; the returned reader is at the first entry. */
export function readStart(bytes: Uint8Array) {
  const reader = new ByteReader(bytes)
  const version = reader.byte()
  if (version < formatVersion || version > formatRedacted) {
    throw new RepriseError('INCOMPATIBLE_VERSION', `run format ${version} is not known`, {
      version,
      known: formatRedacted,
    })
  }
  const first = reader.integer()
  const epoch = reader.integer()
  const time = reader.integer()
  if (version === formatWithNonce) reader.raw(nonceBytes)
  if (version === formatRedacted) skipDigests(reader)
  return { reader, first, epoch, time }
}

function marksOf(flags: number): Pick<StoredEntry, 'isHeadInside' | 'isErased'> {
  return { ...(flags & isHeadInside && { isHeadInside: true }), ...(flags & isErased && { isErased: true }) }
}
