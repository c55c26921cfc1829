// The time limit of an attempt. After it, the attempt's signal is aborted and the attempt counts as failed, with any
// outcome.

import { RepriseError } from '../../core/errors.ts'
import type { Clock } from '../../core/store/ports.ts'

export function within<V>(
  clock: Clock,
  timeoutMs: number,
  pending: PromiseLike<V>,
  tasks: readonly { abort(reason: Error): void }[],
): Promise<V> {
  return new Promise((resolve, reject) => {
    let isSettled = false
    const late = () => {
      if (isSettled) return
      const error = new RepriseError('TIMEOUT', `the attempt took longer than ${timeoutMs} ms`)
      for (const task of tasks) task.abort(error)
      reject(error)
    }
    // A result that has already arrived counts first: after the process was suspended, timers fire before I/O
    // callbacks.
    const cancel = clock.after(timeoutMs, () => clock.soon(late))
    const settled = () => {
      isSettled = true
      cancel()
    }
    pending.then(
      (value) => {
        settled()
        resolve(value)
      },
      (error) => {
        settled()
        reject(error)
      },
    )
  })
}

export function isPromise(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && typeof (value as { then?: unknown }).then === 'function'
}
