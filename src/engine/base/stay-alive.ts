// Keeps this process running while somebody waits for us. Our own timers never do that, so a program that awaits a
// sleeping workflow, or that only works for others, would end with nothing said.

import type { Clock } from '../../core/store/ports.ts'

/** One for all that wait, as there may be many. Real time on purpose: a simulated clock must not see it. */
let timer: ReturnType<typeof setInterval> | null = null
let waiting = 0

/** The returned function lets the process end again. */
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
 * With the engine's `clock`, as that says: whoever waits in virtual time may wait for a process that is dead by now.
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
