// reprise/remote: steps of workflows and items of jobs that are done by programs in other languages, which ask a server for
// them. See docs/guides/server.md.

import { checkName } from '../../engine/model/definition.ts'
import { hub } from './hub.ts'

/** What the call of a step, or of an item of a job, is given: its key, its attempt, and a signal that fires when it must stop. */
export interface RemoteCall {
  readonly key: string
  /** Of an item of a job: in place of `key`, which counts only within its job. */
  readonly idempotencyKey?: string
  readonly attempt: number
  /** The trace that the call belongs to: the worker is given it with the task. */
  readonly traceparent?: string | undefined
  readonly signal: AbortSignal
  heartbeat?(details?: unknown): Promise<void>
}

/** Waits for a worker to do it. The result is what the worker sent; its failure is thrown. */
export type Remote<Input, Output> = (input: Input, call: RemoteCall) => Promise<Output>

/**
 * Work that is done outside: workers ask `reprise serve` for what waits in this queue.
 * @example const charge = remote<Order, Payment>('charge'); await ctx.step('charge', (step) => charge(order, step))
 */
export function remote<Input = unknown, Output = unknown>(queue: string): Remote<Input, Output> {
  checkName('remote', queue)
  return async (input, call) => {
    const { key, idempotencyKey = key, attempt, traceparent, signal } = call
    const beat = async (details: unknown) => void (await call.heartbeat?.(details))
    return (await hub.offer({ queue, key: idempotencyKey, attempt, traceparent, input, signal, beat })) as Output
  }
}
