// Lines of a job's log: each says which job, item and attempt it is of. Nothing is replayed in a job: an item that is done is not
// asked for again, and one that was cut off is another attempt.

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
