// What a checkpoint under way waits for outside, and the end of that: it took too long, or the run was cancelled. What hangs is
// left alone: a sink or source must bear that anyway, from an owner that was displaced.

import { RepriseError } from '../../../core/errors.ts'
import { unlessAborted } from '../../../engine/aborting.ts'

export class CallOff {
  readonly #pipeline: string
  /** The checkpoint. */
  readonly id: number
  readonly #abort = new AbortController()
  #waitsFor: string | null = null

  constructor(pipeline: string, id: number) {
    this.#pipeline = pipeline
    this.id = id
  }

  /** Until it settles, or the checkpoint is called off. */
  async waitFor<T>(whom: string, work: Promise<T> | T): Promise<T> {
    const { signal } = this.#abort
    this.#waitsFor = whom
    try {
      return await unlessAborted(Promise.resolve(work), signal, whom)
    } catch (error) {
      throw signal.aborted ? signal.reason : error
    } finally {
      this.#waitsFor = null
    }
  }

  /** Whoever waits is told this. */
  callOff(error: unknown): void {
    this.#abort.abort(error)
  }

  tooLate(timeoutMs: number): RepriseError {
    const on = this.#waitsFor === null ? '' : `: it waited for ${this.#waitsFor}`
    const what = `${this.#pipeline}: checkpoint ${this.id} took longer than ${timeoutMs} ms (checkpointTimeout)${on}`
    return new RepriseError('TIMEOUT', what, { timeoutMs })
  }
}
