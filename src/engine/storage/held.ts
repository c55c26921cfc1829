// The mark of a group that is being restored: nobody opens a member until all of them have gone back, so that none reads
// or writes what the others are about to lose. What the member was waiting for is kept in the mark, and given back with it.

import { RepriseError } from '../../core/errors.ts'
import type { Head } from '../../core/store/ports.ts'
import type { Kernel } from './kernel.ts'

export const heldAttribute = '$held'

export interface Hold {
  /** The restore that holds it. */
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

/** For whoever would open it. The restore itself may: its process has the members among `kernel.restoring`. */
export function refuseHeld(kernel: Kernel, head: Head): void {
  const hold = holdOf(head)
  if (!hold || kernel.restoring.has(head.timeline)) return
  const what = `${head.timeline} is being restored together with its group: \`reprise group resume ${hold.restore}\` finishes that, \`reprise group abandon ${hold.restore}\` ends it`
  throw new RepriseError('OWNED', what, { timeline: head.timeline, restore: hold.restore })
}
