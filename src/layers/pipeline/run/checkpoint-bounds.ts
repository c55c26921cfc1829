// Bounds the outside calls of a checkpoint in progress: they end when the checkpoint takes too long or the run is cancelled. A
// hanging call is abandoned: sinks and sources must tolerate that anyway, from a displaced owner.

import { RepriseError } from '../../../core/errors.ts'
import { unlessAborted } from '../../../engine/base/abortable-wait.ts'
import type { Worker } from '../../../engine/base/worker.ts'

export class CallOff {
  readonly #worker: Pick<Worker, 'begin'>
  readonly #pipeline: string
  /** The id of the checkpoint. */
  readonly id: number
  readonly #abort = new AbortController()
  #waitsFor: string | null = null

  constructor(worker: Pick<Worker, 'begin'>, pipeline: string, id: number) {
    this.#worker = worker
    this.#pipeline = pipeline
    this.id = id
  }

  /** Waits until `work` settles or the checkpoint is aborted. */
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

  /** Rejects all waiting calls with this error. */
  callOff(error: unknown): void {
    this.#abort.abort(error)
  }

  tooLate(timeoutMs: number): RepriseError {
    const on = this.#waitsFor === null ? '' : `: it waited for ${this.#waitsFor}`
    const what = `${this.#pipeline}: checkpoint ${this.id} took longer than ${timeoutMs} ms (checkpointTimeout)${on}`
    return new RepriseError('TIMEOUT', what, { timeoutMs })
  }
}
