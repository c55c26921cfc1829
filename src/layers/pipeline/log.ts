// Lines of a pipeline's log: each says which pipeline, operator and key it is of and, where something outside is called, which
// attempt. Records after the last checkpoint are processed again after a crash, and so are their lines written again.

import { type Logger, placed } from '../../engine/base/log.ts'
import type { CallContext } from './operators/calls.ts'

export type { LogFields, Logger } from '../../engine/base/log.ts'

/** What the context of `call`, `send` and `process` has in common. */
export interface LoggedRecord extends Pick<CallContext, 'pipeline' | 'operator'> {
  readonly key: string | number
  readonly attempt?: number
}

/** @example orders.call('price', (order, ctx) => { logOf(ctx, console).info('asked'); return ask(order) }) */
export function logOf(ctx: LoggedRecord, logger: Logger): Logger {
  // In `process` one context serves all records: its key is that of the moment.
  return placed(logger, () => {
    const { pipeline, operator, key, attempt } = ctx
    return { pipeline, operator, key, ...(attempt !== undefined && { attempt }) }
  })
}
