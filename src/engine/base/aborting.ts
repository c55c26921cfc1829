// Waits that an AbortSignal can end. The awaited work itself continues; only the wait is abandoned.

import { RepriseError } from '../../core/errors.ts'
import type { Clock } from '../../core/store/ports.ts'

/** All waiters of one signal share one listener. Node.js warns of a leak when a signal has more than ten listeners. */
class AbortWaiters {
  readonly #signal: AbortSignal
  readonly #all = new Set<() => void>()

  constructor(signal: AbortSignal) {
    this.#signal = signal
  }

  add(waiter: () => void): void {
    if (this.#all.size === 0) this.#signal.addEventListener('abort', this.#fire)
    this.#all.add(waiter)
  }

  delete(waiter: () => void): void {
    if (this.#all.delete(waiter) && this.#all.size === 0) this.#signal.removeEventListener('abort', this.#fire)
  }

  readonly #fire = () => {
    for (const waiter of [...this.#all]) {
      this.delete(waiter)
      waiter()
    }
  }
}

const waitersOf = new WeakMap<AbortSignal, AbortWaiters>()

/** Calls the listener once, when the signal fires. Returns the function that stops listening. */
export function onAbort(signal: AbortSignal, listener: () => void): () => void {
  const waiters = waitersOf.get(signal) ?? new AbortWaiters(signal)
  waitersOf.set(signal, waiters)
  // A new function per call, so that the same listener can be registered twice.
  const waiter = () => listener()
  waiters.add(waiter)
  return () => waiters.delete(waiter)
}

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

/** Resolves after this time or when the signal fires. Removes its listener from the signal in both cases. */
export function restUnlessAborted(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  return new Promise<void>((resolve) => {
    const done = () => {
      cancel()
      forget()
      resolve()
    }
    const cancel = clock.after(ms, done)
    const forget = onAbort(signal, done)
    if (signal.aborted) done()
  })
}

function aborted(signal: AbortSignal, what: string): RepriseError {
  return new RepriseError('ABORTED', `${what}: aborted`, {}, signal.reason)
}
