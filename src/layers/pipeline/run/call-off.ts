// What a checkpoint under way waits for outside, and the end of that: it took too long, or the run was cancelled. What hangs is
// left alone: a sink or source must bear that anyway, from an owner that was displaced.

import { RepriseError } from '../../../core/errors.ts'
import { unlessAborted } from '../../../engine/base/aborting.ts'
import type { Worker } from '../../../engine/base/worker.ts'

export class CallOff {
  readonly #worker: Pick<Worker, 'begin'>
  readonly #pipeline: string
  /** The checkpoint. */
  readonly id: number
  readonly #abort = new AbortController()
  #waitsFor: string | null = null

  constructor(worker: Pick<Worker, 'begin'>, pipeline: string, id: number) {
    this.#worker = worker
    this.#pipeline = pipeline
    this.id = id
  }

  /** Until it settles, or the checkpoint is called off. */
  async waitFor<T>(whom: string, work: Promise<T> | T): Promise<T> {
    const { signal } = this.#abort
    this.#waitsFor = whom
    const call = this.#worker.begin({ timeline: this.#pipeline, what: `checkpoint ${this.id} for ${whom}` })
    try {
      return await unlessAborted(Promise.resolve(work), signal, whom)
    } catch (error) {
      throw signal.aborted ? signal.reason : error
    } finally {
      this.#waitsFor = null
      call.end()
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
