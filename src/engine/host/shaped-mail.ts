// Mail of a known shape: any program may send a message of any kind to any timeline. The owner reports and drops a
// message that its model does not know, or whose data has another shape; it never stops the timeline.

import { timelineId } from '../../core/coordinate.ts'
import { faultIn, type Shapes } from '../../core/data-shape.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import type { Message } from '../../core/store/ports.ts'
import type { Fold } from '../model/definition.ts'
import type { OpenTimeline } from '../writing/timeline.ts'
import type { Host } from './host.ts'

/** Null: the message was reported, and only has to be removed from the inbox. */
export function readShaped(engine: Host, message: Message, shapes: Shapes): unknown {
  const { kind } = message
  const data = engine.openMessage(message)
  const shape = Object.hasOwn(shapes, kind) ? shapes[kind] : undefined
  const fault = shape ? faultIn(data, shape) : 'its kind is not known here'
  if (fault === null) return data
  reportDropped(engine, message, fault)
  return null
}

/** The kind of these reports in the store's log, which the operator reads after the process that dropped the message ended. */
export const droppedMail = 'mail-dropped'

/** Reports a message that its receiver cannot use, to listeners and in the store's log. Then it is removed from the inbox. */
export function reportDropped(
  { events }: Pick<Host, 'events'>,
  { id, kind, to }: Message,
  fault: string,
  cause?: unknown,
): void {
  const what = `the message ${id} of the kind ${kind} was dropped: ${fault}`
  events.emit('problem', { where: to, error: new RepriseError('MALFORMED', `${to}: ${what}`, { id, kind }, cause) })
  events.emit('report', { kind: droppedMail, timeline: to, what, data: { id, kind } })
}

/** Applies mail that was just sent, for a timeline that may have no owner. An owner reads its own mail. */
export async function applyHere<State>(
  engine: Host,
  timeline: string,
  fold: Fold<State>,
  apply: (open: OpenTimeline<State>) => Promise<void>,
): Promise<void> {
  try {
    const open = await engine.openTimeline(timelineId(timeline), fold, { mustExist: true })
    try {
      await apply(open)
    } finally {
      await open.close()
    }
  } catch (error) {
    // Another process owns the timeline, or took it over meanwhile: if both applied the mail, history contains it once.
    if (!isReprise(error, 'OWNED', 'FENCED', 'CONFLICT')) throw error
  }
}
