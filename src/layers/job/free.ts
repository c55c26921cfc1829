// Whether a shard can be taken: it has no owner, its owner is gone, or its owner is this process, which lost it when
// the store did not answer a commit. Such a shard is released here: no other process can release it while this one
// lives.

import type { Head } from '../../core/store/ports.ts'
import type { Host } from '../../engine/host/host.ts'
import { giveBack } from '../../engine/writing/ownership.ts'

/** @example if (head && !(await isFree(engine, head))) continue */
export async function isFree(engine: Host, head: Head): Promise<boolean> {
  const { owner, isOwnerAlive, timeline } = head
  if (!owner || !isOwnerAlive) return true
  const { kernel } = engine
  // The next check finds the shard free if the release succeeded.
  if (owner === kernel.worker.id && !engine.holds(timeline)) await giveBack(kernel, head)
  return (await kernel.worker.retireGone()).includes(owner)
}
