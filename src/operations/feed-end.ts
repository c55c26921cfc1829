// The current end of the feed, for readers interested only in later entries.

import { type FeedPosition, feedStart } from '../core/store/ports.ts'
import type { Reprise } from '../engine/api/reprise.ts'
import { hostOf } from '../engine/host/host.ts'

/** No id has a control character: this scope is empty, so only positions are read. */
const nobody = '\u0001'

/** `from`: a known position, to read less. */
export async function feedEnd(engine: Reprise, from: FeedPosition = feedStart): Promise<FeedPosition> {
  for (let at = from; ; ) {
    const page = await hostOf(engine).kernel.store.feed(at, { prefixes: [nobody] }, 1000)
    // Not the end, but no further progress: a commit is in progress, and it comes after this position.
    if (page.isEnd || page.next === at) return page.next
    at = page.next
  }
}

/** Positions as numbers: their difference is the number of positions in between. */
export function positionNumber(position: FeedPosition): number {
  return Number(position) || 0
}
