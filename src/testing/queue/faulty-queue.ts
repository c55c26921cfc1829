// A queue with injected faults between the job and the adapter under test: a call that never happens, an answer that is lost,
// a delivery that arrives twice, and a process that dies at any of these boundaries.

import type { Delivery, ExternalQueue, QueueConnection } from '../../layers/job/index.ts'

export type QueueCall = 'connect' | 'receive' | 'acknowledge' | 'extend' | 'release' | 'close'

export type QueueFate =
  | 'ok'
  /** The call does nothing, and reports success: the request was lost on its way. */
  | 'drop'
  /** The call is not executed, and fails as if the broker was unavailable. */
  | 'fail-before'
  /** The call is executed, and its answer is lost. */
  | 'fail-after'
  /** Every delivery of `receive` arrives twice. */
  | 'twice'
  /** The process dies before or after the call. */
  | 'die-before'
  | 'die-after'

/** `callNumber` counts the calls of this name, from 1. */
export type DecideQueue = (call: QueueCall, callNumber: number) => QueueFate

class Lost extends Error {
  override readonly name: string = 'Lost'
}

export interface QueueProcess {
  isAlive(): boolean
  /** Ends the process: its connections break, and nothing of it continues. */
  die(): void
}

/** @example faultyQueue(queue, (call, n) => (call === 'acknowledge' && n === 1 ? 'fail-after' : 'ok'), process) */
export function faultyQueue<Message>(
  queue: ExternalQueue<Message>,
  decide: DecideQueue,
  process: QueueProcess & { onDeath(call: () => void): void },
): ExternalQueue<Message> {
  const calls = new Map<QueueCall, number>()
  const never = new Promise<never>(() => undefined)
  const through = async <R>(call: QueueCall, work: () => Promise<R>, dropped: () => R): Promise<R> => {
    if (!process.isAlive()) return await never
    const number = (calls.get(call) ?? 0) + 1
    calls.set(call, number)
    const fate = decide(call, number)
    if (fate === 'die-before') {
      process.die()
      return await never
    }
    if (fate === 'fail-before') throw new Lost(`${call} (call ${number}) failed on purpose`)
    if (fate === 'drop') return dropped()
    const result = await work()
    if (fate === 'die-after') process.die()
    if (!process.isAlive()) return await never
    if (fate === 'fail-after') throw new Lost(`the answer of ${call} (call ${number}) was lost on purpose`)
    if (fate === 'twice') return [...(result as Delivery<Message>[]), ...(result as Delivery<Message>[])] as R
    return result
  }
  return {
    kind: queue.kind,
    name: queue.name,
    isAway: (error) => error instanceof Lost || queue.isAway(error),
    async connect(context) {
      return await through(
        'connect',
        async () => {
          const connection = await queue.connect(context)
          // The operating system closes the sockets of a dead process.
          process.onDeath(() => void connection.close().catch(() => undefined))
          return wrap(connection)
        },
        () => {
          throw new Lost('connect cannot be dropped')
        },
      )
    },
  }

  function wrap(connection: QueueConnection<Message>): QueueConnection<Message> {
    const nothing = () => undefined
    return {
      holdMs: connection.holdMs,
      receive: (max, waitMs, signal) =>
        through(
          'receive',
          () => connection.receive(max, waitMs, signal),
          () => [],
        ),
      acknowledge: (deliveries) => through('acknowledge', () => connection.acknowledge(deliveries), nothing),
      extend: (deliveries) => through('extend', () => connection.extend(deliveries), nothing),
      release: (deliveries) => through('release', () => connection.release(deliveries), nothing),
      close: () => through('close', () => connection.close(), nothing),
    }
  }
}
