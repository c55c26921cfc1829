// The logger of a workflow: each line names its run and, inside a step, the step and attempt. A replay does not write
// lines again.

import { type Logger, placed } from '../../engine/base/log.ts'
import type { WorkflowContext } from './context.ts'
import { currentPlace, leaveScope } from './run/scope.ts'

export type { LogFields, Logger } from '../../engine/base/log.ts'

/**
 * Lines after the last outcome in history are written again if the run left memory meanwhile, because history cannot
 * show that they were written.
 * @example const log = logOf(ctx, console); log.info('paid', { cents })
 */
export function logOf(ctx: Pick<WorkflowContext, 'id' | 'workflow' | 'isReplaying'>, logger: Logger): Logger {
  const place = () => {
    const step = currentPlace()?.step
    // A step's call runs once, so its lines are written even during a replay.
    if (!step && ctx.isReplaying) return null
    const of = { workflow: ctx.workflow, run: ctx.id }
    if (!step) return of
    const { name, attempt, isUndo } = step
    return {
      ...of,
      ...(name !== undefined && { step: name }),
      ...(attempt !== undefined && { attempt }),
      ...(isUndo && { compensates: true }),
    }
  }
  // A logger may write to a file or read the clock, which workflow code may not.
  return placed(logger, place, leaveScope)
}
