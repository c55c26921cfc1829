// Keeps this process running while a caller waits. The engine's own timers do not, so a program that awaits a sleeping
// workflow, or that only works on queues, would exit silently.

import type { Clock } from '../../core/store/ports.ts'

/** One timer for all waiters, as there may be many. Uses real time on purpose: a simulated clock must not see it. */
let timer: ReturnType<typeof setInterval> | null = null
let waiting = 0

/** The returned function allows the process to exit again. */
export function stayAlive(): () => void {
  let isWaiting = true
  waiting += 1
  timer ??= setInterval(() => undefined, 2 ** 31 - 1)
  return () => {
    if (!isWaiting) return
    isWaiting = false
    waiting -= 1
    if (waiting > 0 || timer === null) return
    clearInterval(timer)
    timer = null
  }
}

/**
 * `clock`: decides whether waiting keeps the process alive. In virtual time, the awaited process may be dead already.
 * @example return await whileAwaited(this.#outcome(), this.#kernel.clock)
 */
export function whileAwaited<T>(outcome: Promise<T>, clock?: Clock): Promise<T> {
  const release = clock ? clock.stayAlive?.() : stayAlive()
  return outcome.then(
    (value) => {
      release?.()
      return value
    },
    (error) => {
      release?.()
      throw error
    },
  )
}
