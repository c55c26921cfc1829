// The start of a run that executes in this process: resolves once the run has its timeline, rejects if it never gets
// one.

import { unlessAborted } from './aborting.ts'

export class Beginning {
  #begin: () => void = () => undefined
  readonly #begun = new Promise<void>((resolve) => {
    this.#begin = resolve
  })

  begun(): void {
    this.#begin()
  }

  /** Rejects if the run failed before it started. A run that has ended counts as started. */
  async wait(result: Promise<unknown>, signal: AbortSignal | undefined, what: string): Promise<void> {
    await unlessAborted(Promise.race([this.#begun, result]), signal, `waiting for ${what} to start`)
  }
}
