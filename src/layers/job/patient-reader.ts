// Reads a source that may fail: waits as the job's retry policy says and opens it again at its last position. What it
// gives again after that is marked as repeated. A source that can be read only once, or says itself that it is of no use,
// fails at once.

import { decideRetry } from '../../core/calls/retry.ts'
import { isReprise, RepriseError } from '../../core/errors.ts'
import type { Kernel } from '../../engine/storage/kernel.ts'
import type { ResolvedJob } from './options.ts'
import type { Chunk, ReadContext, Reader } from './source.ts'

export interface PatientHooks {
  onFailure(error: unknown, attempt: number, next: 'retry' | 'stop'): void
  /** Rejects when reading was called off meanwhile. */
  pause(ms: number): Promise<void>
}

type Given<T> = Promise<Chunk<T> | null> | Chunk<T> | null

export class PatientReader<T> implements Reader<T> {
  readonly #kernel: Kernel
  readonly #job: ResolvedJob<T>
  readonly #context: ReadContext
  readonly #hooks: PatientHooks
  #reader: Reader<T> | null = null
  #position: unknown
  /** Items given since that position. */
  #since = 0
  /** Of the items that come next, so many were given before. */
  #repeats = 0
  #failed = 0

  constructor(kernel: Kernel, job: ResolvedJob<T>, position: unknown, context: ReadContext, hooks: PatientHooks) {
    this.#kernel = kernel
    this.#job = job
    this.#position = position
    this.#context = context
    this.#hooks = hooks
  }

  get total(): number | null {
    return this.#reader?.total ?? null
  }

  get fraction(): number | null {
    return this.#reader?.fraction ?? null
  }

  next(): Given<T> {
    try {
      const given = this.#reader ? this.#reader.next() : this.#openAndRead()
      return given instanceof Promise ? given.then(this.#took, this.#again) : this.#took(given)
    } catch (error) {
      return this.#again(error)
    }
  }

  async close(): Promise<void> {
    await this.#reader?.close?.()
  }

  async #openAndRead(): Promise<Chunk<T> | null> {
    this.#reader = await this.#job.source.open(this.#position, this.#context)
    return await this.#reader.next()
  }

  readonly #took = (chunk: Chunk<T> | null): Chunk<T> | null => {
    if (!chunk) return null
    const repeated = Math.min(this.#repeats, chunk.items.length)
    // A chunk that only repeats items is no progress: a source that fails at one place each time would be read without end.
    if (repeated < chunk.items.length || chunk.after) this.#failed = 0
    this.#repeats -= repeated
    this.#since += chunk.items.length - repeated
    if (chunk.after) {
      this.#position = chunk.after.position
      this.#since = 0
      this.#repeats = 0
    }
    return repeated > 0 ? { ...chunk, repeated } : chunk
  }

  readonly #again = async (error: unknown): Promise<Chunk<T> | null> => {
    for (let failure = error; ; ) {
      const decision = decideRetry(this.#job.retry, this.#failed + 1, failure, {
        chance: () => this.#kernel.random.number(),
        now: this.#kernel.worker.now(),
      })
      const next = decision.again && !this.#job.source.once && mayPass(failure) ? 'retry' : 'stop'
      this.#hooks.onFailure(failure, this.#failed + 1, next)
      if (!decision.again || next === 'stop') throw failure
      if (decision.counts) this.#failed += 1
      await this.#closeQuietly()
      await this.#hooks.pause(decision.delayMs)
      this.#repeats = this.#since
      try {
        return this.#took(await this.#openAndRead())
      } catch (again) {
        failure = again
      }
    }
  }

  /** It failed already: what closing it says is of no interest. */
  async #closeQuietly(): Promise<void> {
    const reader = this.#reader
    this.#reader = null
    try {
      await reader?.close?.()
    } catch {
      // As above.
    }
  }
}

/**
 * Errors of our own say themselves whether trying again may help: a line that is not JSON stays what it is. A position that
 * is gone is no use to anybody: the shards have to be read anew, and tell another.
 */
function mayPass(error: unknown): boolean {
  if (isReprise(error, 'POSITION_GONE')) return false
  return !(error instanceof RepriseError) || error.remedy === 'retry' || error.remedy === 'reload'
}
