// Lines of a workflow's log: each says which run it is of and, inside a step, which step and attempt, and none is written again
// when code is replayed.

import { type Logger, placed } from '../../engine/base/log.ts'
import type { WorkflowContext } from './context.ts'
import { currentPlace, leaveScope } from './run/scope.ts'

export type { LogFields, Logger } from '../../engine/base/log.ts'

/**
 * Behind the last outcome that is in history nothing tells whether a line was written: it comes again if the run was out of
 * memory meanwhile.
 * @example const log = logOf(ctx, console); log.info('paid', { cents })
 */
export function logOf(ctx: Pick<WorkflowContext, 'id' | 'workflow' | 'isReplaying'>, logger: Logger): Logger {
  const place = () => {
    const step = currentPlace()?.step
    // The call of a step happens once, whatever its code does meanwhile.
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
  // A logger may write to a file or look at the clock, which workflow code may not.
  return placed(logger, place, leaveScope)
}
