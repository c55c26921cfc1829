// Mail of a known shape: any program may send a message of any kind to any timeline. The owner reports and drops a
// message that its model does not know, or whose data has another shape; it never stops the timeline.

import { faultIn, type Shapes } from '../../core/data-shape.ts'
import { RepriseError } from '../../core/errors.ts'
import type { Message } from '../../core/store/ports.ts'
import type { Host } from './host.ts'

/** Null: the message was reported, and only has to be removed from the inbox. */
export function readShaped(engine: Host, message: Message, shapes: Shapes): unknown {
  const { id, kind, to } = message
  const data = engine.openMessage(message)
  const shape = Object.hasOwn(shapes, kind) ? shapes[kind] : undefined
  const fault = shape ? faultIn(data, shape) : 'its kind is not known here'
  if (fault === null) return data
  const what = `${to}: the message ${id} of the kind ${kind} was dropped: ${fault}`
  engine.events.emit('problem', { where: to, error: new RepriseError('MALFORMED', what, { id, kind }) })
  return null
}
