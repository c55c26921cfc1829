// How a reader of the store waits for news: until the store reports a write, until `ring` is called, or until a time limit.
// News that arrives while nothing waits is kept for the next wait.

import { Alarm } from '../../lib/waiting.ts'
import type { Kernel } from '../storage/kernel.ts'

export class WakeUp extends Alarm {
  readonly #unlisten: () => void

  constructor({ clock, store }: Pick<Kernel, 'clock' | 'store'>) {
    super(clock)
    this.#unlisten = store.listen(() => this.ring())
  }

  /** Ends all waits. */
  close(): void {
    this.#unlisten()
    this.ring()
  }
}

/**
 * Calls `look` after `ms` (or at once, and then), and again `ms` after each call has ended. Returns a function that stops it.
 */
export function pollEvery(
  clock: Kernel['clock'],
  ms: number,
  poll: () => Promise<void>,
  onError: (error: unknown) => void = () => undefined,
  isAtOnce = false,
): () => void {
  let isOver = false
  let cancel = () => {}
  const go = () => {
    void poll()
      .catch((error) => isOver || onError(error))
      .finally(() => {
        if (!isOver) cancel = clock.after(ms, go)
      })
  }
  if (isAtOnce) go()
  else cancel = clock.after(ms, go)
  return () => {
    isOver = true
    cancel()
  }
}
