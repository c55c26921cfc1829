// A pipeline's log lines: each names its pipeline, operator and key and, for calls to the outside, the attempt. After a crash,
// records after the last checkpoint are processed again, and their lines are logged again.

import { type Logger, placed } from '../../engine/base/log.ts'
import type { CallContext } from './operators/calls.ts'

export type { LogFields, Logger } from '../../engine/base/log.ts'

/** The common part of the contexts of `call`, `send` and `process`. */
export interface LoggedRecord extends Pick<CallContext, 'pipeline' | 'operator'> {
  readonly key: string | number
  readonly attempt?: number
}

/** @example orders.call('price', (order, ctx) => { logOf(ctx, console).info('asked'); return ask(order) }) */
export function logOf(ctx: LoggedRecord, logger: Logger): Logger {
  // In `process`, one context serves all records, so the key is read when a line is logged.
  return placed(logger, () => {
    const { pipeline, operator, key, attempt } = ctx
    return { pipeline, operator, key, ...(attempt !== undefined && { attempt }) }
  })
}
