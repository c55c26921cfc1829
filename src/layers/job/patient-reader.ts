// Reads a source that may fail: waits according to the job's retry policy and opens it again at its last position.
// Items that it yields again are marked as repeated. A source that can be read only once, or whose error cannot be
// retried, fails at once.

import { isReprise, RepriseError } from '../../core/errors.ts'
import { decideRetry } from '../../core/retry/retry.ts'
import type { Kernel } from '../../engine/storage/kernel.ts'
import type { ResolvedJob } from './options.ts'
import type { Chunk, ReadContext, Reader } from './source.ts'

export interface PatientHooks {
  onFailure(error: unknown, attempt: number, next: 'retry' | 'stop'): void
  /** Rejects when reading was cancelled meanwhile. */
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
  /** The number of items since that position. */
  #since = 0
  /** The number of upcoming items that were yielded before. */
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

  reached(position: unknown): void {
    this.#reader?.reached?.(position)
  }

  async #openAndRead(): Promise<Chunk<T> | null> {
    this.#reader = await this.#job.source.open(this.#position, this.#context)
    return await this.#reader.next()
  }

  readonly #took = (chunk: Chunk<T> | null): Chunk<T> | null => {
    if (!chunk) return null
    const repeated = Math.min(this.#repeats, chunk.items.length)
    // A chunk that only repeats items is not progress: otherwise a source that always fails at the same position would be read
    // forever.
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

  /** The source has failed already: an error from closing it does not matter. */
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
 * Our own errors declare whether a retry may help: a line that is not JSON stays invalid. A lost position
 * cannot be retried: the shards must be read again and have another.
 */
function mayPass(error: unknown): boolean {
  if (isReprise(error, 'POSITION_GONE')) return false
  return !(error instanceof RepriseError) || error.remedy === 'retry' || error.remedy === 'reload'
}
