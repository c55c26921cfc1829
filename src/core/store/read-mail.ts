// Messages that were read elsewhere: their ids are stored as read, so that a repeated message is dropped.

import type { MessageId, TimelineId } from '../coordinate.ts'
import type { Commit, OutgoingMessage } from './ports.ts'

const nothing = new Uint8Array()

/** Two commits for one batch. None of the ids may be stored as read yet; an unread message with such an id is treated as read. */
export function storeAsRead(
  timeline: TimelineId,
  epoch: number,
  ids: readonly MessageId[],
): [Omit<Commit, 'operation'>, Omit<Commit, 'operation'>] {
  const send = ids.map((id): OutgoingMessage => ({ id, to: timeline, kind: '$read', data: nothing }))
  const guard = { timeline, epoch }
  return [
    { guard, send },
    { guard, consume: ids },
  ]
}
