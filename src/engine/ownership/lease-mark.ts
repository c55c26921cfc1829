// The mark of a timeline that a process owns on behalf of one client with a lease: processes that write in turns are
// refused as long as the owner lives. The mark names its epoch, and does not apply to another. The token is the epoch under
// which the client got its lease: it stays when another server continues the lease under a newer epoch.

import { RepriseError } from '../../core/errors.ts'
import type { Attribute, Head } from '../../core/store/ports.ts'
import type { Kernel } from '../storage/kernel.ts'

const leaseAttribute = '$lease'

export interface LeaseMark {
  readonly epoch: number
  readonly token: number
  readonly holder: string
  readonly ttlMs: number
}

export function leaseMark(mark: LeaseMark): Readonly<Record<string, Attribute>> {
  return { [leaseAttribute]: JSON.stringify(mark) }
}

export const noLease: Readonly<Record<string, null>> = { [leaseAttribute]: null }

/** The lease under the head's epoch, whether its owner lives or not. Null: none. */
export function leaseAt(head: Pick<Head, 'attributes' | 'epoch'> | null, epoch = head?.epoch): LeaseMark | null {
  const text = head?.attributes[leaseAttribute]
  if (typeof text !== 'string') return null
  try {
    const mark = JSON.parse(text) as LeaseMark
    return mark.epoch === epoch ? mark : null
  } catch {
    return null
  }
}

/** The client with a lease through another process. Null: none. */
export function leaseHolder({ worker }: Pick<Kernel, 'worker'>, head: Head | null): string | null {
  if (!head?.isOwnerAlive || head.owner === worker.id) return null
  return leaseAt(head)?.holder ?? null
}

/** Refuses a write in turns. A process that died on this host is not an owner, even if its row has not expired yet. */
export async function refuseLeased(kernel: Kernel, head: Head | null): Promise<void> {
  const holder = leaseHolder(kernel, head)
  if (holder === null || !head) return
  if ((await kernel.deadWorkers.retireGone()).some((id) => id === head.owner)) return
  if ((await kernel.deadWorkers.retiredSoon()).some((id) => id === head.owner)) return
  const { timeline, epoch } = head
  const what = `${holder} holds the lease of ${timeline}: wait, or take it over`
  throw new RepriseError('OWNED', what, { timeline, holder, epoch })
}
