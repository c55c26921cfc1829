// Rewrites a lost or damaged segment of history from a copy that has its entries: as everywhere, a run is accepted only if it
// follows from the start of the segment, and all of them only if they lead to its end. The segment is written to the store; the
// next round of the tiers moves it to its place.

import { equalBytes } from '../../../core/coordinate.ts'
import { isReprise } from '../../../core/errors.ts'
import { lastSeq } from '../../../core/history/entry-run.ts'
import type { Head, ManifestRecord } from '../../../core/store/ports.ts'
import { type NamedSegment, named, readSegment } from '../../history/segments.ts'
import type { Kernel } from '../../storage/kernel.ts'
import { rewriteSegment } from '../housekeeping/segments.ts'
import { fromSources, type MendableRun } from './history.ts'
import type { RepairSource } from './source.ts'

export interface MendedSegment {
  readonly first: number
  readonly last: number
  readonly from: string
}

export async function mendSegments(
  kernel: Kernel,
  head: Head,
  lines: readonly ManifestRecord[],
  sources: readonly RepairSource[],
): Promise<readonly MendedSegment[]> {
  const mended: MendedSegment[] = []
  for (const segment of named(kernel, lines)) {
    // A segment that a fork left in the middle ends on a branch that is not its own.
    if (segment.to.seq > head.floor || !(await isDamaged(kernel, head, segment))) continue
    const runs = await runsOf(kernel, head, segment, sources)
    if (!runs) continue
    try {
      await rewriteSegment(
        kernel,
        head,
        segment,
        runs.map(({ run }) => run),
      )
    } catch (error) {
      // The timeline has a new owner since it was read: the segment stays a fault until the next attempt.
      if (!isReprise(error, 'FENCED', 'CONFLICT')) throw error
      continue
    }
    mended.push({ first: segment.from.seq + 1, last: segment.to.seq, from: runs[0]!.from })
  }
  return mended
}

async function isDamaged(kernel: Kernel, head: Head, segment: NamedSegment): Promise<boolean> {
  try {
    await readSegment(kernel, head.timeline, segment)
    return false
  } catch (error) {
    return isReprise(error, 'HISTORY_DAMAGED')
  }
}

/** Null: no source has all of the segment. */
async function runsOf(
  kernel: Kernel,
  head: Head,
  { from, to }: NamedSegment,
  sources: readonly RepairSource[],
): Promise<readonly MendableRun[] | null> {
  const runs: MendableRun[] = []
  for (let at = from; at.seq < to.seq; ) {
    const next = await fromSources(kernel, head, at, sources)
    if (!next) return null
    runs.push(next)
    at = { seq: lastSeq(next.run), digest: next.run.digest }
    if (at.seq >= to.seq && !(at.seq === to.seq && equalBytes(at.digest, to.digest))) return null
  }
  return runs
}
