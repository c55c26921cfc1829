// Reads history in segments. Every segment is checked: its chunks against their digests, its chain from its start to
// its end.
// A missing or damaged segment is an error that names it.

import type { StreamPart } from '../../core/checkpoint/manifest.ts'
import { equalBytes, fromHex, type TimelineId, toHex } from '../../core/coordinate.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import { lastSeq } from '../../core/history/entry-run.ts'
import { checkSegment, decodeSegment, type HistorySegment } from '../../core/history/history-segment.ts'
import type { EntryRun, Head, ManifestRecord } from '../../core/store/ports.ts'
import { stateIo } from '../snapshot/kernel-io.ts'
import { readManifest } from '../snapshot/read-manifest.ts'
import { ChunkInput } from '../snapshot/restore-input.ts'
import type { Kernel } from '../storage/kernel.ts'

export type SegmentReader = Pick<Kernel, 'store' | 'hash' | 'limits' | 'codec' | 'sealer' | 'clock' | 'segments'>

interface Point {
  readonly seq: number
  readonly digest: Uint8Array
}

/** A segment, according to its catalog entry. */
export interface NamedSegment {
  readonly record: ManifestRecord
  readonly from: Point
  readonly to: Point
  readonly content: StreamPart['content']
}

/** The name of the manifest's only part: the end of the segment. */
export function partName({ seq, digest }: Point): string {
  return `to ${seq} ${toHex(digest)}`
}

/** Throws CHECKPOINT_DAMAGED or MALFORMED if the catalog entry is damaged. */
export function namedSegment(reader: Pick<Kernel, 'hash' | 'sealer'>, record: ManifestRecord): NamedSegment {
  const [part] = readManifest(reader, record).parts
  const [, seq, digest] = /^to (\d+) ([0-9a-f]{64})$/.exec(part?.kind === 'stream' ? part.name : '') ?? []
  if (part?.kind !== 'stream' || seq === undefined) {
    throw new RepriseError('MALFORMED', `the catalog row of segment ${record.id} names no segment of history`)
  }
  const from = { seq: record.seq, digest: record.digest }
  return { record, from, to: { seq: Number(seq), digest: fromHex(digest!) }, content: part.content }
}

/**
 * The segments that follow one another up to the floor, oldest first. Segments below a gap are omitted: the chain does
 * not reach them.
 */
export async function segmentsBelow(reader: SegmentReader, head: Pick<Head, 'timeline' | 'floor' | 'floorDigest'>) {
  if (head.floor === 0) return []
  return chained(named(reader, await reader.segments.of(head.timeline)), head)
}

/** The same for catalog entries that were read already. */
export function chained(
  segments: readonly NamedSegment[],
  { floor, floorDigest }: Pick<Head, 'floor' | 'floorDigest'>,
): NamedSegment[] {
  const chain: NamedSegment[] = []
  for (let at: Point = { seq: floor, digest: floorDigest }; ; at = chain[0]!.from) {
    const before = segments.find(
      ({ from, to }) => from.seq < at.seq && to.seq === at.seq && equalBytes(to.digest, at.digest),
    )
    // A fork may have left in the middle of the last one.
    const last = chain.length > 0 ? undefined : segments.find(({ from, to }) => from.seq < at.seq && to.seq > at.seq)
    const found = before ?? last
    if (!found) return chain
    chain.unshift(found)
  }
}

/** The segments of readable catalog entries; `verify` reports the others. */
export function named(
  reader: Pick<Kernel, 'hash' | 'sealer'>,
  records: readonly ManifestRecord[],
): readonly NamedSegment[] {
  return records.flatMap((record) => {
    try {
      return [namedSegment(reader, record)]
    } catch (error) {
      if (!isReprise(error, 'CHECKPOINT_DAMAGED', 'MALFORMED')) throw error
      return []
    }
  })
}

/** The runs with sequences above `after`, from the segment that contains the next one. */
export async function readRunsBelow(reader: SegmentReader, head: Head, after: number): Promise<readonly EntryRun[]> {
  const chain = await segmentsBelow(reader, head)
  const holder = chain.findLast(({ from }) => from.seq <= after)
  if (!holder) {
    const start = chain[0]?.from.seq ?? head.floor
    const what = `${head.timeline} has history from ${start} on, not at ${after}`
    throw new RepriseError('OUT_OF_RANGE', what, { timeline: head.timeline, seq: after, floor: start })
  }
  try {
    const { runs } = await readSegment(reader, head.timeline, holder)
    return runs.filter((run) => lastSeq(run) > after)
  } catch (error) {
    // The segment was merged with later ones during the read: a missing segment is not damaged.
    const now = isReprise(error, 'HISTORY_DAMAGED') ? await reader.segments.of(head.timeline) : null
    if (!now || now.some(({ id }) => id === holder.record.id)) throw error
    return await readRunsBelow(reader, head, after)
  }
}

/** Checked from end to end. HISTORY_DAMAGED names the segment and its range. */
export async function readSegment(
  reader: SegmentReader,
  timeline: TimelineId,
  { record, from, to, content }: NamedSegment,
  blobs?: Kernel['store']['blobs'],
): Promise<HistorySegment> {
  try {
    const io = stateIo(reader as Kernel)
    const input = new ChunkInput(blobs ? { ...io, blobs } : io)
    const pieces: Uint8Array[] = []
    for await (const piece of input.readPlain(await input.streamRefs(content, null), null)) pieces.push(piece)
    const segment = decodeSegment(Buffer.concat(pieces))
    if (!isAt(segment.from, from) || !isAt(segment.to, to)) {
      throw new RepriseError('HISTORY_DAMAGED', 'it is not the segment that its catalog row names')
    }
    checkSegment(reader.hash, segment)
    return segment
  } catch (error) {
    if (!isReprise(error, 'CHUNK_MISSING', 'CHUNK_DAMAGED', 'MALFORMED', 'HISTORY_DAMAGED')) throw error
    const what = `segment ${record.id}, which holds ${from.seq + 1} to ${to.seq} of ${timeline}, cannot be read`
    const data = { timeline, segment: record.id, seq: from.seq + 1, to: to.seq }
    throw new RepriseError('HISTORY_DAMAGED', `${what}: ${error.message}`, data, error)
  }
}

function isAt(a: Point, b: Point): boolean {
  return a.seq === b.seq && equalBytes(a.digest, b.digest)
}
