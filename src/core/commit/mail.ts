// Rules for mail, requests and cursors, which are stored beside the timelines and outlive their changes.

import type { MessageId, TimelineId } from '../coordinate.ts'
import type { Commit, OutgoingMessage } from '../store/ports.ts'
import type { Changes } from './changes.ts'
import { Refused } from './refused.ts'
import type { CommitView } from './view.ts'

export function checkNoMail(view: CommitView, timeline: TimelineId): void {
  const count = view.unread(timeline)
  if (count > 0) throw new Refused('MAIL_WAITING', `${timeline} has ${count} unread messages`)
}

export function checkConsume(view: CommitView, timeline: TimelineId, ids: readonly MessageId[]): void {
  for (const [index, id] of ids.entries()) {
    if (view.message(timeline, id) !== 'unread' || ids.indexOf(id) !== index) {
      throw new Refused('CONFLICT', `no unread message ${id} to ${timeline}`)
    }
  }
}

export function checkRequests(view: CommitView, numbers: readonly number[]): void {
  for (const [index, number] of numbers.entries()) {
    if (!view.hasRequest(number) || numbers.indexOf(number) !== index) {
      throw new Refused('CONFLICT', `request ${number} was carried out or removed`)
    }
  }
}

/** Refuses a sender without a timeline of its own if no receiver will read its message. */
export function checkReceivers(view: CommitView, messages: readonly OutgoingMessage[]): void {
  const lost = messages.find((message) => !isReachable(view, message))
  if (lost) throw new Refused('NOT_FOUND', lifeOver(lost))
}

export function lifeOver({ life, to }: OutgoingMessage): string {
  return `life ${life} of ${to} is over`
}

function isReachable(view: CommitView, { to, life }: OutgoingMessage): boolean {
  return life === undefined || view.head(to)?.life === life
}

/** Messages with a new id: repeated messages are dropped, and so are messages to a life that is over. */
export function newMessages(view: CommitView, messages: readonly OutgoingMessage[]): OutgoingMessage[] {
  return messages.filter((message, index) => isReachable(view, message) && isNew(view, messages, message, index))
}

function isNew(
  view: CommitView,
  messages: readonly OutgoingMessage[],
  { to, id }: OutgoingMessage,
  index: number,
): boolean {
  return view.message(to, id) === null && messages.findIndex((other) => other.to === to && other.id === id) === index
}

export function cursorMoves(
  view: CommitView,
  timeline: TimelineId,
  moves: NonNullable<Commit['cursors']>,
): Changes['cursors'] {
  return Object.entries(moves).flatMap(([name, position]) => {
    if (position === undefined) return []
    const before = view.cursor(name)
    if (before && before.owner !== timeline) throw new Refused('CONFLICT', `cursor ${name} belongs to ${before.owner}`)
    if (position !== null && before && position < before.position) {
      throw new Refused('CONFLICT', `cursor ${name} is at ${before.position} and does not move back to ${position}`)
    }
    return [{ name, position }]
  })
}
