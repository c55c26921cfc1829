// Whether a shard can be taken: nobody has it, its owner is gone, or its owner is this process, which lost it to a store that did
// not answer a commit. Such a shard is released here: nobody else would while this process lives.

import type { Head } from '../../core/store/ports.ts'
import type { Host } from '../../engine/host/host.ts'
import { giveBack } from '../../engine/writing/ownership.ts'

/** @example if (head && !(await isFree(engine, head))) continue */
export async function isFree(engine: Host, head: Head): Promise<boolean> {
  const { owner, isOwnerAlive, timeline } = head
  if (!owner || !isOwnerAlive) return true
  const { kernel } = engine
  // Free with the next look, if the release was taken.
  if (owner === kernel.worker.id && !engine.holds(timeline)) await giveBack(kernel, head)
  return (await kernel.worker.retireGone()).includes(owner)
}
