// The history that cursors still need, by timeline. Cursors are positions in the feed, not sequences: entries that a cursor
// has not passed are found by reading the feed from there. The store itself refuses to trim them; this is for callers that
// check first.

import type { TimelineId } from '../../core/coordinate.ts'
import { isReprise } from '../../core/errors.ts'
import type { CursorRow, FeedPage, FeedPosition } from '../../core/store/ports.ts'
import type { CursorHold } from '../checkpoint/retain.ts'
import type { Kernel } from '../storage/kernel.ts'

const pageRuns = 1000
/** A cursor further behind than this many pages is followed no further: later entries are treated as passed. */
const pagesMax = 200

/**
 * For these timelines, the sequence that each cursor has passed; a timeline that all have passed is not in the map. Default: all
 * cursors of the store.
 */
export async function cursorHolds(
  kernel: Kernel,
  timelines: readonly TimelineId[],
  cursors?: readonly Pick<CursorRow, 'name' | 'position'>[],
): Promise<ReadonlyMap<TimelineId, readonly CursorHold[]>> {
  const holds = new Map<TimelineId, CursorHold[]>()
  if (timelines.length === 0) return holds
  for (const { name, position } of cursors ?? (await kernel.store.cursors())) {
    const left = new Set(timelines)
    let after = position
    for (let page = 0; page < pagesMax && left.size > 0; page++) {
      const { items, next, isEnd } = await pageAfter(kernel, after, [...left])
      for (const { timeline, run } of items) {
        if (!left.delete(timeline)) continue
        holds.set(timeline, [...(holds.get(timeline) ?? []), { name, seq: run.first - 1 }])
      }
      after = next
      if (isEnd) break
    }
  }
  return holds
}

/** A cursor beyond the end has passed everything, as in the store: its owner gets the error, not the collector. */
async function pageAfter(kernel: Kernel, after: FeedPosition, prefixes: readonly string[]): Promise<FeedPage> {
  try {
    return await kernel.store.feed(after, { prefixes }, pageRuns)
  } catch (error) {
    if (!isReprise(error, 'POSITION_GONE')) throw error
    return { items: [], next: after, isEnd: true }
  }
}
