// The logger of a tool: each line names its session, turn, tool and attempt. A call with a recorded result is not made
// again, so its lines are not written again either.

import { type Logger, placed } from '../../engine/base/log.ts'
import type { ToolContext } from './tool.ts'

export type { LogFields, Logger } from '../../engine/base/log.ts'

/** @example run: async (args, ctx) => { logOf(ctx, console).info('refunds', { cents: args.cents }); … } */
export function logOf(ctx: Pick<ToolContext, 'session' | 'turn' | 'tool' | 'attempt'>, logger: Logger): Logger {
  const { session, turn, tool, attempt } = ctx
  return placed(logger, () => ({ session, turn, tool, attempt }))
}
