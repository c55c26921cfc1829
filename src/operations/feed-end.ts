// Where the feed ends now: for whoever wants to hear of what comes, and of nothing that was.

import { type FeedPosition, feedStart } from '../core/store/ports.ts'
import type { Reprise } from '../engine/api/reprise.ts'
import { hostOf } from '../engine/host/host.ts'

/** No id has a control character: nothing is in this scope, so that only positions are read. */
const nobody = '\u0001'

/** `from`: a position that is known already, to read less. */
export async function feedEnd(engine: Reprise, from: FeedPosition = feedStart): Promise<FeedPosition> {
  for (let at = from; ; ) {
    const page = await hostOf(engine).kernel.store.feed(at, { prefixes: [nobody] }, 1000)
    // Not the end, and no further: somebody is about to commit, and that is what comes.
    if (page.isEnd || page.next === at) return page.next
    at = page.next
  }
}
