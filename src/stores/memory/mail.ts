// Mail and cursors: what lies beside the timelines and outlives their rows' changes.

import type { MessageId, TimelineId } from '../../core/coordinate.ts'
import type { Commit, OutgoingMessage } from '../../core/ports.ts'
import { type Change, Refused } from './change.ts'
import type { MessageRow } from './world.ts'

/** Says whether any of the messages was new. */
export function send(change: Change, messages: readonly OutgoingMessage[], now: number): boolean {
  const { space } = change
  let isNew = false
  for (const { id, to, kind, data } of messages) {
    const key = messageKey(to, id)
    if (space.messages.has(key)) continue
    isNew = true
    const row: MessageRow = { id, to, kind, data: new Uint8Array(data), sentAt: now, consumedAt: null }
    change.put(space.messages, key, row)
    change.put(space.unread, to, [...(space.unread.get(to) ?? []), row])
  }
  return isNew
}

export function consume(change: Change, timeline: TimelineId, ids: readonly MessageId[], now: number): void {
  const { space } = change
  const nothing = new Uint8Array()
  for (const id of ids) {
    const key = messageKey(timeline, id)
    const row = space.messages.get(key)
    if (!row || row.consumedAt !== null) throw new Refused('CONFLICT', `no unread message ${id} to ${timeline}`)
    change.put(space.messages, key, { ...row, data: nothing, consumedAt: now })
  }
  const rest = (space.unread.get(timeline) ?? []).filter((row) => !ids.includes(row.id))
  if (rest.length === 0) change.remove(space.unread, timeline)
  else change.put(space.unread, timeline, rest)
}

export function removeMail(change: Change, timeline: TimelineId): void {
  const { space } = change
  for (const [key, row] of [...space.messages.entries()]) if (row.to === timeline) change.remove(space.messages, key)
  change.remove(space.unread, timeline)
}

export function moveCursors(
  change: Change,
  owner: TimelineId,
  moves: NonNullable<Commit['cursors']>,
  now: number,
): void {
  const { cursors } = change.space
  for (const [name, position] of Object.entries(moves)) {
    if (position === undefined) continue
    const before = cursors.get(name)
    if (before && before.owner !== owner) {
      throw new Refused('CONFLICT', `cursor ${name} belongs to ${before.owner}`)
    }
    if (position === null) {
      change.remove(cursors, name)
      continue
    }
    if (before && position < before.position) {
      throw new Refused('CONFLICT', `cursor ${name} is at ${before.position} and does not move back to ${position}`)
    }
    change.put(cursors, name, { name, owner, position, movedAt: now })
  }
}

export function messageKey(to: TimelineId, id: MessageId): string {
  return `${to.length}:${to}${id}`
}
