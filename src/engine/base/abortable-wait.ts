// Waits that an AbortSignal can end. The awaited work itself continues; only the wait is abandoned.

import { RepriseError } from '../../core/errors.ts'
import { onAbort } from '../../lib/waiting.ts'

export function throwIfAborted(signal: AbortSignal | undefined, what: string): void {
  if (signal?.aborted) throw aborted(signal, what)
}

/** @example return await unlessAborted(this.#result, options.signal, 'waiting for the job') */
export function unlessAborted<T>(work: Promise<T>, signal: AbortSignal | undefined, what: string): Promise<T> {
  if (!signal) return work
  return new Promise<T>((resolve, reject) => {
    const abort = () => reject(aborted(signal, what))
    const forget = signal.aborted ? abort : onAbort(signal, abort)
    if (signal.aborted) abort()
    work.then(resolve, reject).finally(forget)
  })
}

function aborted(signal: AbortSignal, what: string): RepriseError {
  return new RepriseError('ABORTED', `${what}: aborted`, {}, signal.reason)
}
