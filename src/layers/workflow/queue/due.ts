// Runs without an owner: making them due, setting them aside with the reason, and reviving them.

import { isReprise } from '../../../core/errors.ts'
import type { Head } from '../../../core/store/ports.ts'
import type { Host } from '../../../engine/host/host.ts'
import type { CommitExtras } from '../../../engine/writing/writer.ts'
import { nameOf, queueOf } from '../names.ts'

/** Retry delay after the store could not list runs. */
const reviveMs = 10_000

/** The commit of a run that cannot continue: workers no longer claim it, and its head has the reason. */
export function aside(status: 'diverged' | 'quarantined', error: unknown): CommitExtras {
  return { wakeup: null, queue: null, status, attributes: { problem: problemOf(error) } }
}

export async function setAside(engine: Host, head: Head, error: unknown): Promise<void> {
  await engine.change(head, { release: true, ...aside('quarantined', error) })
}

/** Revives the runs that were set aside under old code, once the store can list them: this process has new code. */
export async function reviveAside(engine: Host, definition: { readonly prefix: string }): Promise<void> {
  try {
    await revive(engine, definition)
  } catch (error) {
    if (isReprise(error, 'STORE_UNREACHABLE')) {
      const again = () => void reviveAside(engine, definition).catch(() => undefined)
      engine.clock.after(reviveMs, again)
    }
    throw error
  }
}

async function revive(engine: Host, definition: { readonly prefix: string }): Promise<void> {
  for (const status of ['diverged', 'quarantined']) {
    const heads = await engine.list({ prefix: definition.prefix, status, limit: 1000 })
    for (const head of heads) {
      const queue = queueOf({ name: nameOf(head.timeline) })
      await engine.change(head, {
        ...dueNow(engine, head),
        queue,
        status: 'waiting',
        attributes: { problem: null },
      })
      engine.dispatcher.wake()
    }
  }
}

/** Makes the run due now, whatever it waits for. */
export async function makeDue(engine: Host, head: Head): Promise<void> {
  if (head.owner !== null && head.isOwnerAlive) return
  await engine.change(head, dueNow(engine, head))
  engine.dispatcher.wake()
}

function dueNow(engine: Host, { timeline }: Head): CommitExtras {
  return { wakeup: engine.now(timeline) }
}

/** Includes the causes: "the codec refused its data" alone does not show which data to repair. */
function problemOf(error: unknown): string {
  const parts: string[] = []
  for (let each = error; each !== undefined && each !== null && parts.length < 4; ) {
    const text = each instanceof Error ? each.message : String(each)
    if (!parts.some((part) => part.includes(text))) parts.push(text)
    each = each instanceof Error ? each.cause : undefined
  }
  return parts.join(': ').slice(0, 2000)
}
