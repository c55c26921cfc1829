// The mark of a group that is being restored: no process opens a member until all of them are rolled back, so that none
// reads or writes entries that the others are about to lose. The mark keeps the member's queue and wakeup, and restores
// them.

import { RepriseError } from '../../core/errors.ts'
import type { Head } from '../../core/store/ports.ts'
import type { Kernel } from './kernel.ts'

export const heldAttribute = '$held'

export interface Hold {
  /** The restore that holds the timeline. */
  readonly restore: string
  readonly was: Pick<Head, 'queue' | 'wakeup'>
}

export function holdOf(head: Pick<Head, 'attributes'>): Hold | null {
  const text = head.attributes[heldAttribute]
  if (typeof text !== 'string') return null
  try {
    return JSON.parse(text) as Hold
  } catch {
    return null
  }
}

/** Refuses to open a held timeline. The restoring process may: its members are in `kernel.restoring`. */
export function refuseHeld(kernel: Kernel, head: Head): void {
  const hold = holdOf(head)
  if (!hold || kernel.restoring.has(head.timeline)) return
  const what = `${head.timeline} is being restored together with its group: \`reprise group resume ${hold.restore}\` finishes that, \`reprise group abandon ${hold.restore}\` ends it`
  throw new RepriseError('OWNED', what, { timeline: head.timeline, restore: hold.restore })
}
