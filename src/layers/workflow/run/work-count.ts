// Counts the work in progress for a run. Calls the run back when all of it is done, and when some of it failed.

import { assert } from '../../../core/assert.ts'
import { leaveScope } from './scope.ts'

/** Returned by work that calls `done` or `failed` itself: for the hot path, which allocates no promises. */
export const reportedLater = Symbol('reported later')

/** Undefined if the work is already done. */
export type Working = Promise<unknown> | typeof reportedLater | undefined

export class Work {
  readonly #onIdle: () => void
  readonly #onFailed: (error: unknown) => void
  #count = 0

  constructor(onIdle: () => void, onFailed: (error: unknown) => void) {
    this.#onIdle = onIdle
    this.#onFailed = onFailed
  }

  /** The number of pieces in progress. */
  get count(): number {
    return this.#count
  }

  get isIdle(): boolean {
    return this.#count === 0
  }

  during(work: () => Working): void {
    this.#count += 1
    try {
      const working = leaveScope(work)
      if (working === undefined) queueMicrotask(this.done)
      else if (working !== reportedLater) working.then(this.#worked, this.failed)
    } catch (error) {
      this.failed(error)
    }
  }

  readonly #worked = (result: unknown): void => {
    if (result !== reportedLater) this.done()
  }

  readonly done = (): void => {
    this.#take()
    if (this.#count === 0) this.#onIdle()
  }

  readonly failed = (error: unknown): void => {
    this.#take()
    this.#onFailed(error)
  }

  #take(): void {
    assert(this.#count > 0, 'work ends once for each time it began')
    this.#count -= 1
  }
}
