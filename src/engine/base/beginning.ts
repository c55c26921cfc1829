// The beginning of a run that executes in this process: a waiter learns that the run has its timeline, or why it never got one.

import { unlessAborted } from './aborting.ts'

export class Beginning {
  #begin: () => void = () => undefined
  readonly #begun = new Promise<void>((resolve) => {
    this.#begin = resolve
  })

  begun(): void {
    this.#begin()
  }

  /** Rejects if the run failed before it began. A run that ended has begun. */
  async wait(result: Promise<unknown>, signal: AbortSignal | undefined, what: string): Promise<void> {
    await unlessAborted(Promise.race([this.#begun, result]), signal, `waiting for ${what} to start`)
  }
}
