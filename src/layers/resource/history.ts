// Changes of a kind, read from history in pages from a revision on: for readers too far behind for the window in memory.

import { equalBytes, type TimelineId } from '../../core/coordinate.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import { lastSeq } from '../../core/history/entry-run.ts'
import { digestAt, entriesOf, floorOf, lineageOf, type Point, readHistory } from '../../engine/history/history.ts'
import { retryWithFreshHead } from '../../engine/history/retry-with-fresh-head.ts'
import type { Kernel } from '../../engine/storage/kernel.ts'
import type { Revisions } from './revisions.ts'
import { type Change, changeOf } from './rules/state.ts'

export interface ChangePage {
  readonly changes: readonly Change[]
  /** Every change up to here is in this page or an earlier one. */
  readonly at: Point
}

/**
 * A revision, with the digest of history there if the reader has it: a different history of the same length is then detected.
 */
export interface ReadPoint {
  readonly seq: number
  readonly digest?: Point['digest'] | undefined
}

export interface ReadOptions {
  /** The last sequence to read. Default: the end. */
  readonly to?: number | undefined
  /** The external revision of a sequence, for errors. */
  readonly outside?: (seq: number) => number
}

/**
 * Changes after a point, about `limit` of them (whole entry runs), up to revision `to` or the end. REVISION_GONE: that part of
 * history was removed.
 */
export async function changesAfter(
  kernel: Kernel,
  timeline: TimelineId,
  after: ReadPoint,
  limit: number,
  { to, outside = (seq) => seq }: ReadOptions = {},
): Promise<ChangePage> {
  return await retryWithFreshHead(async () => {
    const [head] = await kernel.store.head([timeline])
    if (!head) {
      if (after.seq === 0) return { changes: [], at: { seq: 0, digest: new Uint8Array() } }
      throw revisionGone(timeline, outside(after.seq), 'there is no such kind in this store')
    }
    const lineage = await lineageOf(kernel, head)
    const floor = floorOf(lineage)
    if (after.seq < floor.seq) {
      if (kernel.planted.has('too-old-unsaid') && (to ?? head.seq) >= floor.seq)
        return await changesAfter(kernel, timeline, floor, limit, { to, outside })
      throw revisionGone(timeline, outside(after.seq), `history begins after ${outside(floor.seq)}`)
    }
    if (after.seq > head.seq) {
      throw revisionGone(timeline, outside(after.seq), `history ends at ${outside(head.seq)}`)
    }
    const digest = after.seq === floor.seq ? floor.digest : await digestAt(kernel, lineage, after.seq)
    if (after.digest !== undefined && after.digest.length > 0 && !equalBytes(after.digest, digest)) {
      throw revisionGone(timeline, outside(after.seq), 'it belongs to another copy of this store')
    }
    const changes: Change[] = []
    let at: Point = { seq: after.seq, digest }
    for await (const verified of readHistory(kernel, lineage, at, Math.min(to ?? head.seq, head.seq))) {
      for (const entry of entriesOf(kernel, verified)) {
        const change = changeOf(entry)
        if (change) changes.push(change)
      }
      at = { seq: lastSeq(verified.run), digest: verified.run.digest }
      if (changes.length >= limit) break
    }
    return { changes, at }
  })
}

/**
 * Whether this point is part of the current history. A point in trimmed history cannot be checked and is treated as part of it.
 */
export async function isInHistory(kernel: Kernel, timeline: TimelineId, point: Point): Promise<boolean> {
  if (point.seq === 0) return true
  try {
    await changesAfter(kernel, timeline, point, 0, { to: point.seq })
    return true
  } catch (error) {
    if (!isReprise(error, 'REVISION_GONE')) throw error
    const [head] = await kernel.store.head([timeline])
    return head !== null && head !== undefined && point.seq < head.floor
  }
}

/** `isOther`: the revision belongs to another history, as opposed to being too old. */
export function revisionGone(timeline: TimelineId, revision: number, why: string, isOther = false): RepriseError {
  const what = `${timeline} cannot be read from revision ${revision} on: ${why}`
  return new RepriseError('REVISION_GONE', what, { timeline, revision, ...(isOther && { isOther }) })
}

/** The sequence of an external revision. REVISION_GONE: the revision belongs to another history. */
export async function insideOf({ engine, timeline, revisions }: Known, revision: number): Promise<number> {
  // Reads the store's identity: the store may have been restored to an older state since the last read.
  await engine.identity.current()
  const seq = revisions.inside(revision)
  if (seq !== null) return seq
  const why = 'it belongs to another history: the store was restored, or the kind was created again'
  throw revisionGone(timeline, revision, why, true)
}

interface Known {
  readonly engine: { readonly identity: Kernel['identity'] }
  readonly timeline: TimelineId
  readonly revisions: Revisions
}
