// Works through a queue of keys (layers/resource/rules/work-queue.ts), with bounds on concurrency and rate, and retries after
// failures under the retry policy. Keys added while it is stopped are not kept: the next start lists all objects.

import { RateLimiter, type RateSettings } from '../../core/retry/rate.ts'
import { decideRetry, type ResolvedRetry } from '../../core/retry/retry.ts'
import type { Kernel } from '../../engine/storage/kernel.ts'
import type { OpenTimeline } from '../../engine/writing/timeline.ts'
import type { FollowerState } from './follower-state.ts'
import { WorkQueue } from './rules/work-queue.ts'

export interface Work {
  /**
   * Works on a key; resolves with the ms after which the key is worked on again, or null. NaN: the key is not
   * resynced.
   */
  call(key: string, attempt: number, signal: AbortSignal): Promise<number | null>
  /** None of the keys worked on is failing. */
  allWell(): void
  /** The key failed and is retried after a pause. */
  failed(key: string, attempt: number, error: unknown): void
  /** The key failed as often as the policy allows. If this rejects, the key is retried. */
  giveUp(key: string, attempts: number, error: unknown): Promise<void>
  /** True if this process may no longer do the work because another process owns it. */
  isOver(error: unknown): boolean
}

export interface RunnerOptions {
  readonly concurrency: number
  readonly rate: RateSettings | null
  readonly retry: ResolvedRetry
  /** Resync interval for finished keys; null: never. */
  readonly everyMs: number | null
}

const shortestPauseMs = 5

/** Notes failures on the timeline of an informer or a controller. The note of a dead letter stays as long as the letter. */
export function failureNotes(kernel: Kernel, open: OpenTimeline<FollowerState>): Pick<Work, 'failed' | 'allWell'> {
  return {
    failed(_, attempt, error) {
      if (attempt > 1) void kernel.failures.failed(open.id, error)
      kernel.events.emit('problem', { where: open.id, error })
    },
    allWell: () => void (open.state.letters.size === 0 && kernel.failures.succeeded(open.id)),
  }
}

export class Runner {
  readonly #kernel: Kernel
  readonly #work: Work
  readonly #options: RunnerOptions
  readonly #queue: WorkQueue
  readonly #rate: RateLimiter | null
  readonly #failures = new Map<string, number>()
  readonly #stopping = new AbortController()
  readonly #ended = new Set<() => void>()
  #cancel: () => void = () => undefined
  #isOver = false

  constructor(kernel: Kernel, work: Work, options: RunnerOptions) {
    this.#kernel = kernel
    this.#work = work
    this.#options = options
    this.#queue = new WorkQueue(options.concurrency, kernel.planted)
    this.#rate = options.rate ? new RateLimiter(options.rate.perMs) : null
    this.#rate?.allow(options.rate!.max, null)
  }

  /** Keys that are ready, being worked on, or waiting for a retry. */
  get pending(): number {
    return this.#queue.pending
  }

  add(key: string, isUrgent = false): void {
    this.#queue.add(key, isUrgent)
    this.#pump()
  }

  /** Starts no more work; resolves when the work in progress has ended. */
  async stop(): Promise<void> {
    this.#isOver = true
    this.#cancel()
    this.#stopping.abort()
    while (this.#queue.running > 0) await new Promise<void>((resolve) => this.#ended.add(resolve))
  }

  #pump(): void {
    if (this.#isOver) return
    this.#cancel()
    const { clock } = this.#kernel
    for (;;) {
      const now = clock.elapsed()
      const key = this.#queue.next(now)
      if (key === null) break
      const pauseMs = this.#rate?.tryStart(now) ?? 0
      if (pauseMs > 0) {
        this.#queue.putBack(key)
        this.#cancel = clock.after(pauseMs, () => this.#pump())
        return
      }
      void this.#run(key)
    }
    const { dueAt } = this.#queue
    if (dueAt === Number.POSITIVE_INFINITY) return
    this.#cancel = clock.after(Math.max(1, dueAt - clock.elapsed()), () => this.#pump())
  }

  async #run(key: string): Promise<void> {
    const attempt = (this.#failures.get(key) ?? 0) + 1
    const { everyMs } = this.#options
    let againMs: number | null = null
    let isPause = false
    try {
      const askedMs = await this.#work.call(key, attempt, this.#stopping.signal)
      this.#failures.delete(key)
      if (this.#failures.size === 0) this.#work.allWell()
      againMs = Number.isNaN(askedMs) ? null : (askedMs ?? everyMs)
    } catch (error) {
      if (this.#work.isOver(error)) this.#isOver = true
      else {
        isPause = true
        againMs = await this.#pauseAfter(key, attempt, error)
      }
    }
    this.#queue.done(key, againMs === null ? null : this.#kernel.clock.elapsed() + againMs, isPause)
    for (const resolve of this.#ended) resolve()
    this.#ended.clear()
    this.#pump()
  }

  /** Null: the key was given up, and is worked on again only after a change. */
  async #pauseAfter(key: string, attempt: number, error: unknown): Promise<number | null> {
    const { random, worker } = this.#kernel
    const given = { chance: () => random.number(), now: worker.now() }
    const { again, delayMs, counts } = decideRetry(this.#options.retry, attempt, error, given)
    if (again) {
      if (counts) this.#failures.set(key, attempt)
      this.#work.failed(key, attempt, error)
      return Math.max(shortestPauseMs, delayMs)
    }
    try {
      await this.#work.giveUp(key, attempt, error)
      this.#failures.delete(key)
      if (this.#failures.size === 0) this.#work.allWell()
      return null
    } catch {
      // The dead letter could not be stored: the key is not given up yet.
      return this.#options.retry.backoffMs || shortestPauseMs
    }
  }
}
