// Requests to re-run a step: who has acted on the results that would be replaced.

import { timelineId } from '../../../core/coordinate.ts'
import { consumersOf, refuseConsumed, reportForced } from '../../../engine/branch/consumers.ts'
import type { Consumer } from '../../../engine/model/rollback-report.ts'
import type { Kernel } from '../../../engine/storage/kernel.ts'
import { childrenOf } from '../commands/children.ts'
import { repeatedBy } from '../history/rerun.ts'
import type { RunState } from '../history/state.ts'

interface Decision {
  readonly id: string
  readonly seq: number
  readonly consumed: 'force' | undefined
}

/** Returns the consumers for the run's history. Throws CONSUMED if there are any, unless the caller forces the re-run. */
export async function decideRerun(
  kernel: Kernel,
  timeline: string,
  state: RunState,
  { id, seq, consumed }: Decision,
): Promise<readonly Consumer[]> {
  const [head] = await kernel.store.head([timelineId(timeline)])
  if (!head) return []
  const repeated = repeatedBy(state, id)
  // A child that the run waited for, and that is not repeated, keeps its result.
  const kept = new Set(childrenOf(state, timeline, (command) => !repeated.has(command)))
  const found = (await consumersOf(kernel, head, seq - 1)).filter((each) => !kept.has(each.timeline))
  if (consumed !== 'force') refuseConsumed(timeline, seq - 1, found)
  else reportForced(kernel, timeline, seq - 1, found)
  return found
}
