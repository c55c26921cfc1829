// Waits that their caller may give up. What was waited for goes on; nothing waits for it here any more.

import { RepriseError } from '../core/errors.ts'

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

function aborted(signal: AbortSignal, what: string): RepriseError {
  return new RepriseError('ABORTED', `${what}: aborted`, {}, signal.reason)
}
