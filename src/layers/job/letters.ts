// Dead letters: items that could not be processed, with their last error. People read, edit, redrive or discard them.
// Requests are sent as mail, so that they reach a job whether it is running or not.

import type { Shapes } from '../../core/data-shape.ts'
import { noTimeline } from '../../core/errors.ts'
import { checkObject } from '../../core/options.ts'
import type { Head } from '../../core/store/ports.ts'
import { type Host, hostOf } from '../../engine/host/host.ts'
import { applyHere, readShaped } from '../../engine/host/shaped-mail.ts'
import type { Engine, Fold } from '../../engine/model/definition.ts'
import type { OpenTimeline } from '../../engine/writing/timeline.ts'
import { type EntryData, entry } from './entries.ts'
import { type DeadLetter, type JobState, jobFold } from './state.ts'

const redriveKind = 'job.redrive'
const discardKind = 'job.discard'
const stopKind = 'job.stop'

/** Reads the dead letters of a job timeline without taking ownership. */
export async function readLetters(rp: Engine, timeline: string): Promise<DeadLetter[]> {
  const engine = hostOf(rp)
  const head = await engine.head(timeline)
  if (!head) throw noTimeline(timeline)
  const { state } = await engine.recover(head, jobFold())
  return [...state.value.dead.values()]
}

/** Redrives letters with a new set of attempts; `edits` replaces items by key. */
export async function redriveLetters(
  rp: Engine,
  timeline: string,
  keys: readonly string[],
  edits: Readonly<Record<string, unknown>> = {},
  key?: string,
): Promise<void> {
  const engine = hostOf(rp)
  checkObject('the edits of a redrive', edits)
  const hasEdits = Object.keys(edits).length > 0
  await engine.send(timeline, redriveKind, { keys, ...(hasEdits && { edits }) }, idOf(key))
  await applyIfFree(engine, timeline)
}

/** Discards letters: their items are then treated as finished. */
export async function discardLetters(
  rp: Engine,
  timeline: string,
  keys: readonly string[],
  key?: string,
): Promise<void> {
  const engine = hostOf(rp)
  await engine.send(timeline, discardKind, { keys }, idOf(key))
  await applyIfFree(engine, timeline)
}

/** Requests that a running job finishes the items in flight and stops. */
export async function stopJob(rp: Engine, timeline: string, reason: string, key?: string): Promise<void> {
  const engine = hostOf(rp)
  const head = await engine.head(timeline)
  // The job has no live owner, so there is nothing to stop.
  if (!head?.owner || !head.isOwnerAlive) return
  await engine.send(timeline, stopKind, { reason }, idOf(key))
}

const mailShapes: Shapes = {
  [redriveKind]: { keys: 'list', edits: 'object?' },
  [discardKind]: { keys: 'list' },
  [stopKind]: { reason: 'text' },
}

/** Moves pending requests into history, in the commit that removes them from the inbox. */
export async function applyMail(
  engine: Host,
  open: OpenTimeline<JobState>,
  onStop: (reason: string) => void = () => undefined,
): Promise<void> {
  for (;;) {
    const messages = await open.inbox()
    if (messages.length === 0) return
    for (const message of messages) {
      const data = readShaped(engine, message, mailShapes)
      const entries = []
      let again = {}
      if (data !== null && message.kind === redriveKind) {
        const redriven = data as EntryData['redriven']
        entries.push(entry('redriven', redriven))
        // The round has ended with these items left over: a worker that has the job takes it again.
        const isLeft = open.state.status === 'completed' && redriven.keys.some((key) => open.state.dead.has(key))
        if (isLeft) again = { status: 'stopped', wakeup: engine.now(open.id) }
      } else if (data !== null && message.kind === discardKind)
        entries.push(entry('discarded', data as EntryData['discarded']))
      else if (data !== null && message.kind === stopKind) onStop((data as { reason: string }).reason)
      await open.write(entries, { consume: [message.id], ...again })
    }
    await open.write([], { attributes: { dead: open.state.dead.size } })
  }
}

/** The same key to the same timeline is one message. */
function idOf(key: string | undefined): { readonly id?: string } {
  return key === undefined ? {} : { id: key }
}

/** Applies the requests to a timeline that this process claimed because of them. */
export async function applyClaimed(engine: Host, head: Head, fold: Fold<JobState>): Promise<void> {
  const open = await engine.adopt(head, fold)
  try {
    await applyMail(engine, open)
  } finally {
    await open.close()
  }
}

async function applyIfFree(engine: Host, timeline: string): Promise<void> {
  const head = await engine.head(timeline)
  // A live owner reads the mail itself.
  if (!head || (head.owner && head.isOwnerAlive)) return
  await applyHere(engine, timeline, jobFold(), (open) => applyMail(engine, open))
}
