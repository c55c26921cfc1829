// reprise/remote: workflow steps and job items that programs in other languages execute; they fetch them from a server.
// See docs/guides/server.md.

import { hostOf } from '../../engine/host/host.ts'
import { behind, checkName, type Engine } from '../../engine/model/definition.ts'
import { boardOf } from './board.ts'
import { offerAnywhere } from './boards.ts'

/** The context of a step or a job item: its key, its attempt, and a signal that fires when it must stop. */
export interface RemoteCall {
  readonly key: string
  /** For an item of a job: replaces `key`, which is unique only within its job. */
  readonly idempotencyKey?: string
  readonly attempt: number
  /** The trace of the call, which the worker gets with the task. */
  readonly traceparent?: string | undefined
  readonly signal: AbortSignal
  heartbeat?(details?: unknown): Promise<void>
}

/** Waits for a worker and returns its result; throws its failure. */
export type Remote<Input, Output> = (input: Input, call: RemoteCall) => Promise<Output>

/**
 * Work that is done outside: workers fetch the tasks of this queue from `reprise serve`.
 * @example const charge = remote<Order, Payment>('charge'); await ctx.step('charge', (step) => charge(order, step))
 */
export function remote<Input = unknown, Output = unknown>(queue: string): Remote<Input, Output> {
  checkName('remote', queue)
  return async (input, call) => {
    const { key, idempotencyKey = key, attempt, traceparent, signal } = call
    const beat = async (details: unknown) => void (await call.heartbeat?.(details))
    const offer = { queue, key: idempotencyKey, attempt, traceparent, input, signal, beat }
    const isBound = behind in call
    return (await (isBound ? boardOf(hostOf(call as Engine)).offer(offer) : offerAnywhere(offer))) as Output
  }
}
