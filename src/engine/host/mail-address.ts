// Addresses mail to a timeline that may not exist yet: a message is found by the workers of a queue only if its timeline is
// entered in that queue.

import { timelineId } from '../../core/coordinate.ts'
import { originDigest } from '../../core/history/entry-run.ts'
import { refusalError } from '../base/refusal-error.ts'
import { markOf } from '../storage/moved-mark.ts'
import { refuseImporting } from '../storage/store-change.ts'
import type { Host } from './host.ts'

/** Ensures that mail is handled: creates the timeline if needed, and enters it in the queue of its kind. */
export async function address(engine: Host, to: string, queue: string): Promise<string> {
  const { worker, identity } = engine
  const timeline = timelineId(to)
  for (;;) {
    const [head] = await engine.heads([timeline])
    // Mail to a timeline that continues in another store waits here: the next move takes it with it.
    if (head && (head.queue === queue || markOf(head))) return timeline
    if (head) refuseImporting(head)
    const outcome = head
      ? await engine.commit({ guard: { timeline, epoch: head.epoch }, queue })
      : await engine.commit({
          guard: { timeline, epoch: (await identity.past(timeline)).epoch },
          take: {
            worker: await worker.register(),
            from: 'free',
            create: { digest: originDigest(engine.hash, timeline) },
          },
          queue,
          release: true,
        })
    if (outcome.ok) return timeline
    if (outcome.code === 'WORKER_RETIRED') await worker.renewNow()
    else if (outcome.code !== 'FENCED' && outcome.code !== 'OWNED') {
      throw refusalError(timeline, outcome)
    }
  }
}
