// Entries of a timeline for the commands that show them, verified as they are read.

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

export function shownEntry(entry: Entry) {
  const { timeline, seq, epoch, type, version, time, key, data } = entry
  return { timeline, seq, epoch, type, version, time, ...(key !== undefined && { key }), data }
}
