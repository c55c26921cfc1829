// The logger of a job: each line names its job, item and attempt. Jobs have no replay: a finished item is not processed
// again, and an interrupted one is a new attempt.

import { type Logger, placed } from '../../engine/base/log.ts'
import type { BatchContext, ItemContext } from './context.ts'

export type { LogFields, Logger } from '../../engine/base/log.ts'

/** @example const log = logOf(item, console); log.info('fetched', { bytes }) */
export function logOf(
  ctx: Pick<ItemContext, 'job' | 'key' | 'attempt'> | Pick<BatchContext<unknown>, 'job' | 'keys' | 'attempt'>,
  logger: Logger,
): Logger {
  const { job, attempt } = ctx
  const place = 'keys' in ctx ? { job, items: ctx.keys, attempt } : { job, item: ctx.key, attempt }
  return placed(logger, () => place)
}
