// The start of a run that executes in this process: resolves once the run has its timeline, rejects if it never gets
// one.

import { Latch } from '../../lib/waiting.ts'
import { unlessAborted } from './abortable-wait.ts'

export class PendingStart {
  readonly #begun = new Latch()

  begun(): void {
    this.#begun.set()
  }

  /** Rejects if the run failed before it started. A run that has ended counts as started. */
  async wait(result: Promise<unknown>, signal: AbortSignal | undefined, what: string): Promise<void> {
    await unlessAborted(Promise.race([this.#begun.wait(), result]), signal, `waiting for ${what} to start`)
  }
}
