// Earlier decisions of people about a timeline: in unread mail, and in its history. Only one decision on the same
// matter can hold, so a different one is refused with the author and time of the first; the same decision is accepted
// again.

import { type HistoryPoint, isSamePoint, type TimelineId, toHex } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import type { Head } from '../../core/store/ports.ts'
import type { Entry } from '../model/entry.ts'
import type { Kernel } from '../storage/kernel.ts'
import { openMessage } from '../storage/message.ts'
import { entriesOf, floorOf, lineageOf, readHistory } from './history.ts'

export interface RecordedDecision {
  /** done, failed, approve, …: as passed to the model's own verb. */
  readonly outcome: string
  readonly by: string
  /** When the decision was sent, or entered history. Null: that entry was removed. */
  readonly at: number | null
}

/** One page is enough: far more messages than people send. */
const inboxMax = 10_000

/** The unread messages, in the order in which they will be consumed. */
export async function unreadOf(
  kernel: Kernel,
  timeline: TimelineId,
  kind: string,
): Promise<{ readonly id: string; readonly at: number; readonly data: unknown }[]> {
  const { messages } = await kernel.store.inbox(timeline, inboxMax)
  return messages
    .filter((message) => message.kind === kind)
    .map((message) => ({ id: message.id, at: message.sentAt, data: openMessage(kernel, message) }))
}

/** All entries that still exist, oldest first. */
export async function* entriesBelow(kernel: Kernel, head: Head): AsyncGenerator<Entry> {
  const lineage = await lineageOf(kernel, head)
  for await (const run of readHistory(kernel, lineage, floorOf(lineage), head.seq)) yield* entriesOf(kernel, run)
}

/**
 * Throws CONFLICT if the history no longer ends where the person saw it end: restored, created again, rolled back or decided by
 * another person, it may wait for something else.
 */
export function checkAbout(
  { timeline, seq, digest }: Pick<Head, 'timeline' | 'seq' | 'digest'>,
  seen?: HistoryPoint,
): void {
  if (!seen || isSamePoint(seen, { seq, digest: toHex(digest) })) return
  const ends = seen.seq === seq ? `sequence ${seq} of another history` : `sequence ${seq}`
  const what = `the history of ${timeline} changed: the decision refers to sequence ${seen.seq}, but the history now ends at ${ends}; read it again`
  throw new RepriseError('CONFLICT', what, { timeline, seq, about: seen.seq })
}

/** @example throw conflictingDecision('workflow/pay/o1', 'charge', 'done', { outcome: 'failed', by: 'ann', at }) */
export function conflictingDecision(
  timeline: string,
  what: string,
  now: string,
  before: RecordedDecision,
): RepriseError {
  const { outcome, by, at } = before
  const when = at === null ? '' : ` at ${new Date(at).toISOString()}`
  const why = outcome === now ? 'with another result' : `so it cannot be ${now}`
  return new RepriseError('CONFLICT', `${by} decided ${what} of ${timeline}${when}: ${outcome}; ${why}`, {
    timeline,
    what,
    outcome,
    by,
    at,
  })
}
