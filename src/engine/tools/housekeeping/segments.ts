// Moves history that is no longer needed in the store to the history tier. Segment by segment: it is read through the
// chain, put into the colder place, read back from there and checked, and only then published in the catalog, in the
// transaction that raises the floor to its end. If the process is killed, history is in the store, in a published
// segment, or in both; unpublished chunks are collected. The next round resumes at the floor.
// To avoid many small segments, the last one, while it is small, is rewritten together with the history after it.

import { type ChunkRef, encodeManifest } from '../../../core/checkpoint/manifest.ts'
import type { RetentionPlan } from '../../../core/checkpoint/retention.ts'
import { type ManifestId, toHex } from '../../../core/coordinate.ts'
import { lastSeq } from '../../../core/history/entry-run.ts'
import { encodeSegment } from '../../../core/history/history-segment.ts'
import { epochGuardOf } from '../../../core/store/commit-guard.ts'
import type { EntryRun, Head, ManifestRecord, Outcome } from '../../../core/store/ports.ts'
import { refusalError } from '../../base/refusal-error.ts'
import { runEndAtOrBelow } from '../../checkpoint/retain.ts'
import { floorOf, lineageOf, type Point, readHistory } from '../../history/history.ts'
import { type NamedSegment, named, namedSegment, partName, readSegment, segmentsBelow } from '../../history/segments.ts'
import { ChunkOutput } from '../../snapshot/chunk-output.ts'
import { stateIo } from '../../snapshot/kernel-io.ts'
import { ChunkHold } from '../../storage/chunk-hold.ts'
import { type Kernel, newId, submit } from '../../storage/kernel.ts'
import { segmentMark } from '../../storage/segment-catalog.ts'
import type { OpenPlace } from '../../storage/tiered-blobs.ts'

export interface MovedHistory {
  readonly segments: number
  readonly entries: number
  readonly bytes: number
}

/** A segment ends with the run that makes it this large, before compression. */
const segmentBytes = 4 * 1024 * 1024
/** A smaller segment is rewritten together with the history after it. */
const smallBytes = 1024 * 1024
/** The size of its pieces: below the largest chunk, even if they cannot be compressed. */
const pieceBytes = 1024 * 1024

interface Stretch {
  readonly from: Point
  readonly runs: readonly EntryRun[]
}

/** @example await moveHistory(kernel, head, plan.movable, place, signal) // { segments: 2, entries: 812, bytes: 90210 } */
export async function moveHistory(
  kernel: Kernel,
  head: Head,
  { seq, restsOn }: NonNullable<RetentionPlan['movable']>,
  place: OpenPlace,
  signal?: AbortSignal,
): Promise<MovedHistory> {
  const none = { segments: 0, entries: 0, bytes: 0 }
  const to = await runEndAtOrBelow(kernel, head, seq)
  if (!to || to.seq <= head.floor) return none
  const small = await lastSmall(kernel, head)
  const moved = { ...none }
  for await (const stretch of stretches(kernel, head, small?.from ?? null, to)) {
    if (signal?.aborted) break
    const { bytes } = await moveStretch(kernel, head, stretch, restsOn, place, small)
    moved.segments += 1
    moved.bytes += bytes
    for (const run of stretch.runs) moved.entries += lastSeq(run) > head.floor ? run.count : 0
  }
  return moved
}

/** The newest segment, if it is small, or extends beyond the point where a fork left it; null otherwise. */
async function lastSmall(kernel: Kernel, head: Head): Promise<NamedSegment | null> {
  const last = (await segmentsBelow(kernel, head)).at(-1)
  return last && (last.record.totalBytes < smallBytes || last.to.seq > head.floor) ? last : null
}

/** The history to move, cut into segments. */
async function* stretches(kernel: Kernel, head: Head, small: Point | null, to: Point): AsyncGenerator<Stretch> {
  const lineage = await lineageOf(kernel, head)
  const from = small ?? (await startOf(kernel, head, lineage))
  let [start, runs, bytes]: [Point, EntryRun[], number] = [from, [], 0]
  for await (const { run } of readHistory(kernel, lineage, from, to.seq)) {
    runs.push(run)
    bytes += run.bytes.length
    if (bytes < segmentBytes) continue
    yield { from: start, runs }
    ;[start, runs, bytes] = [{ seq: lastSeq(run), digest: run.digest }, [], 0]
  }
  if (runs.length > 0) yield { from: start, runs }
}

/**
 * After the existing segments. A fork also copies the history that its parents still have for it: once its floor is
 * above its base, it no longer reads them.
 */
async function startOf(kernel: Kernel, head: Head, lineage: readonly Head[]): Promise<Point> {
  const floor = floorOf(lineage)
  if (lineage.length === 1) return floor
  const own = named(kernel, await kernel.segments.of(head.timeline))
  return own.map(({ to }) => to).findLast(({ seq }) => seq >= floor.seq && seq <= head.floor) ?? floor
}

/** Replaces a lost or damaged segment by one with the same entries, in the store. */
export async function rewriteSegment(
  kernel: Kernel,
  head: Head,
  segment: NamedSegment,
  runs: readonly EntryRun[],
): Promise<void> {
  // Bypasses the tiers: a damaged chunk in a colder place would count as existing.
  const place = { blobs: kernel.tiers.hot, isOwn: true }
  await moveStretch(kernel, head, { from: segment.from, runs }, [], place, segment)
}

async function moveStretch(
  kernel: Kernel,
  head: Head,
  { from, runs }: Stretch,
  restsOn: readonly ManifestId[],
  place: OpenPlace,
  /** The segment to replace, if it starts where these runs do. */
  before: NamedSegment | null,
): Promise<{ readonly bytes: number }> {
  const last = runs[runs.length - 1]!
  const to = { seq: lastSeq(last), digest: last.digest }
  const plain = encodeSegment({ timeline: head.timeline, from, to, runs })
  const hold = await ChunkHold.begin(kernel, place.blobs)
  try {
    // 1. Put the chunks.
    const output = new ChunkOutput(stateIo(kernel, hold))
    const refs: ChunkRef[] = []
    for (let at = 0; at < plain.length; at += pieceBytes) {
      refs.push(output.add(plain.slice(at, at + pieceBytes)))
      await output.pause()
    }
    await output.finish()
    const record = lineOf(kernel, head, from, to, refs, plain.length)
    // 2. Read them back, and follow the chain from end to end.
    await readSegment(kernel, head.timeline, namedSegment(kernel, record), place.blobs)
    // 3. Publish the segment and raise the floor, in one commit.
    const replaced = before && before.from.seq === from.seq ? [before.record.id] : []
    await hold.publish(output.added, async (chunksSince) => {
      const outcome: Outcome = await submit(kernel, {
        guard: epochGuardOf(head),
        aside: true,
        publish: [{ ...record, chunksSince }],
        ...(replaced.length > 0 && { drop: replaced }),
        ...(to.seq > head.floor && { trim: { ...to, restsOn } }),
      })
      if (!outcome.ok) throw refusalError(head.timeline, outcome)
    })
    kernel.events.emit('history-moved', {
      timeline: head.timeline,
      segment: record.id,
      from: from.seq + 1,
      to: to.seq,
      bytes: record.totalBytes,
    })
    return { bytes: record.totalBytes }
  } finally {
    hold.end()
  }
}

function lineOf(
  kernel: Kernel,
  head: Head,
  from: Point,
  to: Point,
  refs: readonly ChunkRef[],
  size: number,
): ManifestRecord {
  const { foldVersion, trigger } = segmentMark
  const content = { kind: 'chunks', size, level: 0, refs } as const
  const bytes = [...new Map(refs.map((ref) => [toHex(ref.digest), ref.bytes])).values()].reduce((a, b) => a + b, 0)
  const body = encodeManifest({
    ...{ timeline: head.timeline, seq: from.seq, epoch: head.epoch, digest: from.digest, foldVersion },
    parts: [{ kind: 'stream', name: partName(to), content }],
  })
  return {
    id: newId(kernel.random) as ManifestId,
    seq: from.seq,
    epoch: head.epoch,
    digest: from.digest,
    body,
    bodyDigest: kernel.hash(body),
    baseId: null,
    createdAt: kernel.worker.now(),
    trigger,
    label: null,
    isPinned: false,
    foldVersion,
    totalBytes: bytes,
    addedBytes: bytes,
    // It restores no state: no search for a usable checkpoint may count it.
    verifiedAt: null,
    invalid: null,
    drilledAt: null,
    drill: null,
  }
}
