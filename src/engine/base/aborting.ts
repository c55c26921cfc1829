// Waits that their caller may give up. What was waited for goes on; nothing waits for it here any more.

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

/** Calls once when the signal fires. Returns the function that stops listening. */
export function onAbort(signal: AbortSignal, listener: () => void): () => void {
  const waiters = waitersOf.get(signal) ?? new AbortWaiters(signal)
  waitersOf.set(signal, waiters)
  // Another function each time: the same listener may wait twice.
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

/** Resolves after this time, or when the signal fires. Leaves nothing behind on the signal, however often it is called. */
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
