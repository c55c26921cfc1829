// Waits for a call to the outside: for its answer, up to its timeout, or for the time of its next attempt.

import { RepriseError } from '../../core/errors.ts'
import type { Clock } from '../../core/store/ports.ts'

/** Watches one call: its signal fires when the caller aborts, and when nothing arrived for too long. */
export class CallWatch {
  readonly #controller = new AbortController()
  readonly #clock: Clock
  readonly #timeoutMs: number | null
  readonly #outer: AbortSignal | undefined
  readonly #onAbort: () => void
  readonly #timedOut: Promise<never>
  readonly #onAlive: () => void
  #refuse: (error: unknown) => void = () => undefined
  #cancel: () => void = () => undefined

  /** `onAlive` is called when something arrived. */
  constructor(
    clock: Clock,
    timeoutMs: number | null,
    outer: AbortSignal | undefined,
    onAlive: () => void = () => undefined,
  ) {
    this.#onAlive = onAlive
    this.#clock = clock
    this.#timeoutMs = timeoutMs
    this.#outer = outer
    this.#onAbort = () => this.#controller.abort(outer?.reason)
    if (outer?.aborted) this.#onAbort()
    outer?.addEventListener('abort', this.#onAbort, { once: true })
    this.#timedOut = new Promise<never>((_resolve, reject) => {
      this.#refuse = reject
    })
    this.#timedOut.catch(() => undefined)
    this.alive()
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** Something arrived: restarts the timeout. */
  alive(): void {
    this.#onAlive()
    this.#cancel()
    const { timeoutMs } = { timeoutMs: this.#timeoutMs }
    if (timeoutMs === null) return
    this.#cancel = this.#clock.after(
      timeoutMs,
      () => {
        const error = new RepriseError('TIMEOUT', `no answer within ${timeoutMs} ms`, { timeoutMs })
        this.#controller.abort(error)
        this.#refuse(error)
      },
      true,
    )
  }

  /** The result of the work, or TIMEOUT. */
  async wait<T>(work: Promise<T> | T): Promise<T> {
    return await Promise.race([work, this.#timedOut])
  }

  end(): void {
    this.#cancel()
    this.#outer?.removeEventListener('abort', this.#onAbort)
  }
}
