// How a reader of the store waits for news: until the store says that something was written, until somebody here rings, or until
// some time is over in any case. News that arrives while nobody waits is kept for the next wait.

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

  /** Call it before looking: whatever rings from here on ends the next wait. */
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

  /** Whoever waits goes on. */
  close(): void {
    this.#unlisten()
    this.ring()
  }
}

/** Calls `look` after `ms` (or at once, and then), and again `ms` after each look has ended. Returns what stops it. */
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
