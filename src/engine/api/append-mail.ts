// Appends entries to a raw timeline from `append` messages, which are sent by a transaction of the application (within.ts) or by
// any other sender. A process that works on the definition claims free timelines that have mail, and reads the mail of the
// timelines it owns; the commit that appends the entries removes the message, so that they are appended once.

import { isReprise, RepriseError } from '../../core/errors.ts'
import type { Head, Message } from '../../core/store/ports.ts'
import { pollEvery } from '../feed/wake-up.ts'
import type { Host } from '../host/host.ts'
import { address } from '../host/mail-address.ts'
import { applyHere, reportDropped } from '../host/shaped-mail.ts'
import type { Fold } from '../model/definition.ts'
import type { RequestDraft } from '../model/enlisting.ts'
import type { NewEntry, OpenTimeline } from '../writing/timeline.ts'

export const appendKind = 'append'
const pollMs = 1000

interface Received<State> {
  readonly name: string
  readonly prefix: string
  readonly fold: Fold<State>
  /** Throws INVALID_ARGUMENT or UNSERIALIZABLE if the data is neither an entry nor a list of entries. */
  entriesOf(data: unknown, key: string): NewEntry[]
}

export function enlistAppend(
  engine: Host,
  { name, prefix, entriesOf }: Received<never>,
  id: string,
  data: unknown,
  key: string,
): RequestDraft {
  if (entriesOf(data, key).length === 0) throw new RepriseError('INVALID_ARGUMENT', 'append() needs at least one entry')
  const message = engine.message(prefix + id, appendKind, data, key)
  return { verb: 'send', target: queueOf(name), id: message.to, topic: appendKind, data: message.data, key }
}

/** This process appends the mail of all timelines of this definition. */
export function serveAppends<State>(engine: Host, received: Received<State>): void {
  const { name, prefix, fold } = received
  const queue = queueOf(name)
  if (engine.dispatcher.queues.includes(queue)) return
  engine.requests.serveMail(queue, prefix, (to) => address(engine, to, queue))
  engine.serve(queue, async (head: Head) => {
    const open = await engine.adopt(head, fold)
    try {
      await receive(engine, open, received)
    } finally {
      await open.close()
    }
  })
  // Mail for timelines that this process owns is not claimed, so it is polled.
  const look = async () => {
    const owner = engine.worker.registered
    if (owner === null) return
    for await (const { timeline, mail } of engine.each({ owner, queue })) {
      // The handler above reads the mail of timelines that were claimed.
      if (mail > 0 && engine.holds(timeline) && !engine.dispatcher.has(timeline)) {
        await applyHere(engine, timeline, fold, (open) => receive(engine, open, received))
      }
    }
  }
  const stop = pollEvery(engine.clock, pollMs, look, (error) => engine.events.emit('problem', { where: queue, error }))
  engine.onClose(async () => stop())
}

function queueOf(name: string): string {
  return `timeline/${name}`
}

async function receive<State>(engine: Host, open: OpenTimeline<State>, received: Received<State>): Promise<void> {
  for (let messages = await open.inbox(); messages.length > 0; messages = await open.inbox()) {
    for (const message of messages) await append(engine, open, message, received)
  }
}

/** A message that is not an entry, or that the fold refuses, is reported and dropped: it must not hold back the others. */
async function append<State>(
  engine: Host,
  open: OpenTimeline<State>,
  message: Message,
  { entriesOf }: Received<State>,
): Promise<void> {
  const { id, kind } = message
  const consume = [id]
  try {
    if (kind !== appendKind) throw new RepriseError('INVALID_ARGUMENT', 'its kind is not known here')
    await open.write(entriesOf(engine.openMessage(message), id), { consume })
  } catch (cause) {
    if (!isReprise(cause, 'INVALID_ARGUMENT', 'UNSERIALIZABLE', 'FOLD_FAILED')) throw cause
    reportDropped(engine, message, cause.message, cause)
    await open.write([], { consume })
  }
}
