// Lines of a workflow's log: each says which run it is of and, inside a step, which step and attempt, and none is written again
// when code is replayed.

import type { WorkflowContext } from './context.ts'
import { currentPlace } from './scope.ts'

/** What most loggers are: console, or one that keeps fields apart from the message. */
export interface Logger {
  debug(message: string, fields?: Readonly<Record<string, unknown>>): void
  info(message: string, fields?: Readonly<Record<string, unknown>>): void
  warn(message: string, fields?: Readonly<Record<string, unknown>>): void
  error(message: string, fields?: Readonly<Record<string, unknown>>): void
}

/**
 * Behind the last outcome that is in history nothing tells whether a line was written: it comes again if the run was out of
 * memory meanwhile.
 * @example const log = logOf(ctx, console); log.info('paid', { cents })
 */
export function logOf(ctx: Pick<WorkflowContext, 'id' | 'workflow' | 'isReplaying'>, logger: Logger): Logger {
  const line =
    (level: keyof Logger) =>
    (message: string, fields: Readonly<Record<string, unknown>> = {}) => {
      const step = currentPlace()?.step
      // The call of a step happens once, whatever its code does meanwhile.
      if (!step && ctx.isReplaying) return
      const { name, attempt } = step ?? {}
      const place = { ...(name !== undefined && { step: name }), ...(attempt !== undefined && { attempt }) }
      logger[level](message, { workflow: ctx.workflow, run: ctx.id, ...place, ...fields })
    }
  return { debug: line('debug'), info: line('info'), warn: line('warn'), error: line('error') }
}
