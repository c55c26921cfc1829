// Dead letters: what could not be done, with its item and its last error. People look at them, change them, send them back
// or discard them. Wishes travel as mail, so that they reach a job that is running as well as one that is not.

import { timelineId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import { recover } from '../../engine/recover.ts'
import type { Reprise } from '../../engine/reprise.ts'
import type { OpenTimeline } from '../../engine/timeline.ts'
import { type EntryData, entry } from './entries.ts'
import { type DeadLetter, type JobState, jobFold } from './state.ts'

const redriveKind = 'job.redrive'
const discardKind = 'job.discard'

/** The dead letters of a job timeline, read aside. */
export async function readLetters(engine: Reprise, timeline: string): Promise<DeadLetter[]> {
  const head = await engine.head(timeline)
  if (!head) throw new RepriseError('NOT_FOUND', `there is no timeline ${timeline}`, { timeline })
  const { state } = await recover(engine.kernel, head, jobFold())
  return [...state.value.dead.values()]
}

/** Sends letters back to be tried again with a fresh set of attempts; `edits` replaces items by key. */
export async function redriveLetters(
  engine: Reprise,
  timeline: string,
  keys: readonly string[],
  edits: Readonly<Record<string, unknown>> = {},
): Promise<void> {
  const hasEdits = Object.keys(edits).length > 0
  await engine.send(timeline, redriveKind, { keys, ...(hasEdits && { edits }) })
  await applyIfFree(engine, timeline)
}

/** These count as finished from now on. */
export async function discardLetters(engine: Reprise, timeline: string, keys: readonly string[]): Promise<void> {
  await engine.send(timeline, discardKind, { keys })
  await applyIfFree(engine, timeline)
}

/** Moves waiting wishes into history, in the same commit that takes them out of the inbox. */
export async function applyMail(engine: Reprise, open: OpenTimeline<JobState>): Promise<number> {
  let count = 0
  for (;;) {
    const messages = await open.inbox()
    if (messages.length === 0) return count
    for (const message of messages) {
      const data = engine.openMessage(message)
      const entries =
        message.kind === redriveKind
          ? [entry('redriven', data as EntryData['redriven'])]
          : message.kind === discardKind
            ? [entry('discarded', data as EntryData['discarded'])]
            : []
      await open.write(entries, { consume: [message.id], attributes: {} })
      count += 1
    }
    await open.write([], { attributes: { dead: open.state.dead.size } })
  }
}

async function applyIfFree(engine: Reprise, timeline: string): Promise<void> {
  const head = await engine.head(timeline)
  // Its owner finds the mail by itself.
  if (!head || (head.owner && head.isOwnerAlive)) return
  const open = await engine.openTimeline(timelineId(timeline), engineFold(engine))
  try {
    await applyMail(engine, open)
  } finally {
    await open.close()
  }
}

function engineFold(_engine: Reprise) {
  return jobFold()
}
