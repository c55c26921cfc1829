// The time an attempt may take. When it is over, the attempt's signal is aborted and it counts as failed, whatever comes
// of it later.

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
    // An answer that is at hand counts first: of a process that stood still, the timers are called before the answers.
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
