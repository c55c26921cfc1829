// Waits that their caller may give up. What was waited for goes on; nothing waits for it here any more.

import { RepriseError } from '../core/errors.ts'
import type { Clock } from '../core/ports.ts'

export function throwIfAborted(signal: AbortSignal | undefined, what: string): void {
  if (signal?.aborted) throw aborted(signal, what)
}

/** @example return await unlessAborted(this.#result, options.signal, 'waiting for the job') */
export function unlessAborted<T>(work: Promise<T>, signal: AbortSignal | undefined, what: string): Promise<T> {
  if (!signal) return work
  return new Promise<T>((resolve, reject) => {
    const end = () => signal.removeEventListener('abort', abort)
    const abort = () => {
      end()
      reject(aborted(signal, what))
    }
    signal.addEventListener('abort', abort)
    if (signal.aborted) abort()
    work.then(resolve, reject).finally(end)
  })
}

/** Resolves after this time, or when the signal fires. Leaves nothing behind on the signal, however often it is called. */
export function restUnlessAborted(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  return new Promise<void>((resolve) => {
    const done = () => {
      cancel()
      signal.removeEventListener('abort', done)
      resolve()
    }
    const cancel = clock.after(ms, done)
    signal.addEventListener('abort', done, { once: true })
    if (signal.aborted) done()
  })
}

function aborted(signal: AbortSignal, what: string): RepriseError {
  return new RepriseError('ABORTED', `${what}: aborted`, {}, signal.reason)
}
