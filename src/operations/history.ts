// Entries of a timeline for the commands that show them, verified as they are read.

import { isSamePoint, parsePoint, pointText, toHex } from '../core/coordinate.ts'
import { RepriseError } from '../core/errors.ts'
import type { Head } from '../core/store/ports.ts'
import type { Reprise } from '../engine/api/reprise.ts'
import {
  digestAt,
  type Entry,
  entriesOf,
  floorOf,
  lineageOf,
  reachOf,
  readHistory,
  type VerifiedRun,
} from '../engine/history/history.ts'
import { hostOf } from '../engine/host/host.ts'

export async function* entriesAfter(engine: Reprise, head: Head, after: number): AsyncGenerator<Entry> {
  const { kernel } = hostOf(engine)
  for await (const run of await historyAfter(engine, head, after)) yield* entriesOf(kernel, run)
}

/** The same as entry runs, which is faster for readers of many or of only a few entries. */
export async function historyAfter(engine: Reprise, head: Head, after: number): Promise<AsyncGenerator<VerifiedRun>> {
  const { kernel } = hostOf(engine)
  const lineage = head.base ? await lineageOf(kernel, head) : [head]
  const floor = after < floorOf(lineage).seq ? await reachOf(kernel, lineage) : floorOf(lineage)
  if (after > head.seq)
    throw new RepriseError('OUT_OF_RANGE', `${head.timeline} ends at ${head.seq}`, { head: head.seq })
  const seq = Math.max(after, floor.seq)
  const from = seq === floor.seq ? floor : { seq, digest: await digestAt(kernel, lineage, seq) }
  return readHistory(kernel, lineage, from, head.seq)
}

/** A place in this history for outside readers: it is refused once that history is gone. */
export async function positionAt(engine: Reprise, head: Head, seq: number): Promise<string> {
  const { kernel } = hostOf(engine)
  return pointText({ seq, digest: toHex(await digestAt(kernel, await lineageOf(kernel, head), seq)) })
}

/**
 * The sequence of a position (positionAt). POSITION_GONE: this history does not contain the place, or no longer has the entries
 * after it. A number alone is a sequence of the current history.
 */
export async function seqOfPosition(engine: Reprise, head: Head, text: string): Promise<number> {
  if (/^\d{1,15}$/.test(text)) return Number(text)
  const point = parsePoint(text)
  if (!point) {
    const what = 'a position in a history must be the `next` of the previous page, or a sequence'
    throw new RepriseError('INVALID_ARGUMENT', what, { position: text.slice(0, 100) })
  }
  const { kernel } = hostOf(engine)
  const lineage = await lineageOf(kernel, head)
  const { seq } = point
  const isKept = seq <= head.seq && seq >= (await reachOf(kernel, lineage)).seq
  if (isKept && isSamePoint(point, { seq, digest: toHex(await digestAt(kernel, lineage, seq)) })) return seq
  const what = `position ${text} is not part of the history of ${head.timeline}: it was restored, rolled back, recreated or trimmed since`
  const hint = 'Drop the entries read before it, and read the history from its start.'
  throw new RepriseError('POSITION_GONE', what, { timeline: head.timeline, seq: head.seq }, undefined, hint)
}

export function shownEntry(entry: Entry) {
  const { timeline, seq, epoch, type, version, time, key, data } = entry
  return { timeline, seq, epoch, type, version, time, ...(key !== undefined && { key }), data }
}
