// Before a person's word goes to a run: is there anything that waits for it? A run would pass over what it does not hold, in
// silence, and whoever said it would believe that it counts.

import type { TimelineId } from '../../core/coordinate.ts'
import { RepriseError } from '../../core/errors.ts'
import type { Host } from '../../engine/host.ts'
import { recover } from '../../engine/recovery/recover.ts'
import { readableId } from './scope.ts'
import { noCommand, own, type RunState, workflowFold } from './state.ts'

/** Throws CONFLICT where the step is neither held nor an undo that is stuck. */
export async function checkSettleable(engine: Host, timeline: TimelineId, id: string): Promise<void> {
  const head = await engine.head(timeline)
  // A run that does not exist, or is on its way here, is for the mail to refuse or to keep.
  if (!head) throw new RepriseError('NOT_FOUND', `there is no run ${timeline}`, { timeline })
  const state: RunState = (await recover(engine.kernel, head, workflowFold)).state.value
  if (Object.hasOwn(state.undos, id) || own(state.open, id, noCommand).held) return
  const waiting = [...Object.keys(state.undos), ...heldIn(state)].map(readableId)
  const hint =
    waiting.length > 0 ? `these wait for a person: ${waiting.join(', ')}` : 'nothing of it waits for a person'
  const what = `${readableId(id)} of ${timeline} is not held, and is not settled; ${hint}`
  throw new RepriseError('CONFLICT', what, { timeline, run: timeline, step: readableId(id), waiting })
}

function heldIn(state: RunState): string[] {
  return Object.entries(state.open).flatMap(([id, command]) => (command.held ? [id] : []))
}
