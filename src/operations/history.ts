// Entries of a timeline for the commands that show them, verified as they are read.

import { RepriseError } from '../core/errors.ts'
import type { Head } from '../core/ports.ts'
import { hostOf } from '../engine/host.ts'
import { digestAt, type Entry, entriesOf, floorOf, lineageOf, readHistory } from '../engine/recovery/history.ts'
import type { Reprise } from '../engine/reprise.ts'

export async function* entriesAfter(engine: Reprise, head: Head, after: number): AsyncGenerator<Entry> {
  const { kernel } = hostOf(engine)
  const lineage = await lineageOf(kernel, head)
  const floor = floorOf(lineage)
  if (after > head.seq)
    throw new RepriseError('OUT_OF_RANGE', `${head.timeline} ends at ${head.seq}`, { head: head.seq })
  const seq = Math.max(after, floor.seq)
  const from = seq === floor.seq ? floor : { seq, digest: await digestAt(kernel, lineage, seq) }
  for await (const run of readHistory(kernel, lineage, from, head.seq)) yield* entriesOf(kernel, run)
}

export function shownEntry(entry: Entry) {
  const { timeline, seq, epoch, type, version, time, key, data } = entry
  return { timeline, seq, epoch, type, version, time, ...(key !== undefined && { key }), data }
}
