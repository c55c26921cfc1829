// How a reader of the store waits for news: until the store reports a write, until `ring` is called, or until a time limit.
// News that arrives while nothing waits is kept for the next wait.

import type { Kernel } from '../storage/kernel.ts'

export class WakeUp {
  readonly #clock: Kernel['clock']
  readonly #unlisten: () => void
  #hasRung = false
  #end: (() => void) | null = null

  constructor({ clock, store }: Pick<Kernel, 'clock' | 'store'>) {
    this.#clock = clock
    this.#unlisten = store.listen(() => this.ring())
  }

  ring(): void {
    this.#hasRung = true
    this.#end?.()
  }

  /** Call it before reading: any later ring ends the next wait. */
  hush(): void {
    this.#hasRung = false
  }

  /** Resolves at once if it has rung since the last `hush`. */
  async wait(ms: number): Promise<void> {
    if (!this.#hasRung) await this.sleep(ms)
  }

  /** Resolves at the next ring, however often it has rung before. */
  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const cancel = this.#clock.after(ms, () => this.#end?.())
      this.#end = () => {
        cancel()
        this.#end = null
        resolve()
      }
    })
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
export function lookEvery(
  clock: Kernel['clock'],
  ms: number,
  look: () => Promise<void>,
  onError: (error: unknown) => void = () => undefined,
  isAtOnce = false,
): () => void {
  let isOver = false
  let cancel = () => {}
  const go = () => {
    void look()
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
