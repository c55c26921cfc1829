// Sessions that a worker must resume: a decision arrived while no process has the session open. The session is then in the
// queue of its agent until its turn ends or waits again, so that a worker that dies in the turn is replaced too.

import type { TimelineId } from '../../core/coordinate.ts'
import { isReprise } from '../../core/errors.ts'
import { idBelow } from '../../core/history/scope.ts'
import type { Head } from '../../core/store/ports.ts'
import type { Host } from '../../engine/host/host.ts'
import type { Entity } from '../../engine/model/definition.ts'
import type { CommitExtras } from '../../engine/writing/writer.ts'

/** The commits that end a turn or let it wait: no worker is needed any longer. */
export const idle = { status: 'idle', queue: null, wakeup: null } as const satisfies CommitExtras
export const waits = { status: 'waiting', queue: null, wakeup: null } as const satisfies CommitExtras

/** Pause before a failed attempt to resume is repeated. */
const againMs = 30_000

/** @example queueOf('agent/support/s-1') // 'agent/support' */
function queueOf(timeline: string): string {
  return timeline.split('/', 2).join('/')
}

/** A session that is open in a live process reads its mail itself. */
export async function makeDue(engine: Host, timeline: TimelineId): Promise<void> {
  const head = await engine.head(timeline)
  if (head?.status !== 'waiting' || (head.owner !== null && head.isOwnerAlive)) return
  await engine.change(head, { queue: queueOf(timeline), wakeup: engine.now(timeline) })
  engine.dispatcher.wake()
}

interface Resumable {
  resume(): Promise<unknown>
  close(): Promise<void>
}

/** Resumes due sessions of this agent in this process. */
export function resumeDue(engine: Host, definition: Entity<Resumable> & { readonly prefix: string }): void {
  engine.serve(queueOf(definition.prefix), async (head) => {
    const { timeline } = head
    // A session takes its timeline itself, under an epoch of its own.
    await engine.change(head, { release: true })
    try {
      const session = await engine.open(definition, idBelow(definition.prefix, timeline) ?? '', { mustExist: true })
      await session.resume().finally(() => session.close())
    } catch (error) {
      // Another process has opened it meanwhile, and resumes it.
      if (isReprise(error, 'OWNED')) return
      await leave(engine, timeline, ({ mail }) => {
        // Unread mail is due at once: an attempt that fails before it reads the mail would be repeated without end.
        return mail > 0 ? { queue: null, wakeup: null } : { wakeup: engine.now(timeline) + againMs }
      })
      throw error
    }
    await leave(engine, timeline, () => ({ queue: null, wakeup: null }))
  })
}

/** Changes the head of a session that is still in its queue and open in no process. */
async function leave(engine: Host, timeline: TimelineId, change: (head: Head) => CommitExtras): Promise<void> {
  const head = await engine.head(timeline)
  if (head?.owner === null && head.queue !== null) await engine.change(head, change(head))
}
