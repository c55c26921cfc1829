// The mark that a move leaves on a timeline: it continues in another store, and so do its queue and wakeup.

import { RepriseError } from '../../core/errors.ts'
import type { Head } from '../../core/store/ports.ts'
import { refuseImporting } from './store-change.ts'

export const movedStatus = 'moved'
export const movedAttribute = '$moved'

export interface Mark {
  readonly at: number
  readonly to: string
  readonly was: Pick<Head, 'status' | 'queue' | 'wakeup'>
  /** Whether a timeline that moves to a store may have arrived there. Default: the import has not begun. */
  readonly arrival?: 'begun' | 'done'
  /** With `arrival`: the namespace there. */
  readonly namespace?: string
  /** The number of unread messages, oldest first, that left with it. They stay here; its return decides which were read. */
  readonly carried?: number
}

/** Refuses to open a timeline that continues in another store (NOT_FOUND), or has not arrived (CHANGE_UNFINISHED). */
export function refuseNotHere(head: Head): void {
  refuseImporting(head)
  const mark = head.status === movedStatus ? markOf(head) : null
  if (!mark) return
  const what = `${head.timeline} was moved to ${mark.to} and continues there`
  throw new RepriseError('NOT_FOUND', what, { timeline: head.timeline, movedAt: mark.at, to: mark.to })
}

export function markOf(head: Head): Mark | null {
  return head.status === movedStatus ? markIn(head) : null
}

/** Also of a timeline that is on its way back. */
export function markIn({ attributes }: Pick<Head, 'attributes'>): Mark | null {
  const text = attributes[movedAttribute]
  if (typeof text !== 'string') return null
  try {
    return JSON.parse(text) as Mark
  } catch {
    return null
  }
}
