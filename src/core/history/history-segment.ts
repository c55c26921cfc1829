// A segment of history: consecutive runs of one timeline that moved from the store to a colder place, as self-contained
// bytes. engine/storage/segment-catalog.ts defines its name in the catalog.
//
//   segment = "RPH" version(byte 1) timeline(text) point point run*      start (exclusive) and end (inclusive)
//   point   = seq(integer) digest(32 bytes, of history up to it)
//   run     = first(integer) count(integer) digest(32 bytes, of history after it) sized(bytes: core/history/entry-run.ts)
//
// The chain of digests is that of the timeline (entry-run.ts): from the first point over every run to the last.
// So a segment proves itself, and two segments are adjacent if one starts where the other ends.

import { ByteReader, ByteWriter } from '../bytes.ts'
import { type Digest, equalBytes, type TimelineId } from '../coordinate.ts'
import { RepriseError } from '../errors.ts'
import type { EntryRun, Hash } from '../store/ports.ts'
import { lastSeq, verifyEntries } from './entry-run.ts'

const magic = Uint8Array.of(0x52, 0x50, 0x48)
const formatVersion = 1
const digestBytes = 32

interface Point {
  readonly seq: number
  readonly digest: Digest
}

export interface HistorySegment {
  /** The timeline at the time of writing. A rollback may have moved the runs to an archive since. */
  readonly timeline: string
  readonly from: Point
  readonly to: Point
  readonly runs: readonly EntryRun[]
}

/** @example decodeSegment(encodeSegment(segment)) */
export function encodeSegment({ timeline, from, to, runs }: HistorySegment): Uint8Array {
  const writer = new ByteWriter(runs.reduce((sum, { bytes }) => sum + bytes.length + 64, 256))
  writer.raw(magic)
  writer.byte(formatVersion)
  writer.text(timeline)
  writePoint(writer, from)
  writePoint(writer, to)
  for (const { first, count, digest, bytes } of runs) {
    writer.integer(first)
    writer.integer(count)
    writer.raw(digest)
    writer.sized(bytes)
  }
  return writer.take()
}

/** Throws INCOMPATIBLE_VERSION for a later format, MALFORMED for anything else that is not a segment. */
export function decodeSegment(bytes: Uint8Array): HistorySegment {
  const reader = new ByteReader(bytes)
  if (!equalBytes(reader.raw(magic.length), magic)) throw malformed()
  const version = reader.byte()
  if (version !== formatVersion) {
    const what = `format ${version} of a segment of history is not known`
    throw new RepriseError('INCOMPATIBLE_VERSION', what, { version, known: formatVersion })
  }
  const timeline = reader.text()
  const from = readPoint(reader)
  const to = readPoint(reader)
  const runs: EntryRun[] = []
  while (reader.remaining > 0) {
    const first = reader.integer()
    const count = reader.integer()
    const digest = new Uint8Array(reader.raw(digestBytes))
    runs.push({ first, count, digest, bytes: new Uint8Array(reader.sized()) })
  }
  if (runs.length === 0) throw malformed()
  return { timeline, from, to, runs }
}

/** Verifies the whole chain. Throws HISTORY_DAMAGED. */
export function checkSegment(hash: Hash, { timeline, from, to, runs }: HistorySegment): void {
  let at = from
  for (const run of runs) {
    verifyEntries(hash, timeline as TimelineId, run, at)
    at = { seq: lastSeq(run), digest: run.digest }
  }
  if (at.seq === to.seq && equalBytes(at.digest, to.digest)) return
  const what = `a segment of ${timeline} ends at ${at.seq}, not at ${to.seq} with its recorded digest`
  throw new RepriseError('HISTORY_DAMAGED', what, { timeline, seq: at.seq })
}

function writePoint(writer: ByteWriter, { seq, digest }: Point): void {
  writer.integer(seq)
  writer.raw(digest)
}

function readPoint(reader: ByteReader): Point {
  return { seq: reader.integer(), digest: new Uint8Array(reader.raw(digestBytes)) }
}

function malformed(): RepriseError {
  return new RepriseError('MALFORMED', 'the bytes are not a segment of history')
}
