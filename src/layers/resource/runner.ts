// Works through a queue of keys (layers/resource/rules/work-queue.ts): so many at once, so many per time, each again after a
// failure as the retry policy says. What it is told of while it is stopped is not lost: whoever starts it again lists what
// there is.

import { RateLimiter, type RateSettings } from '../../core/calls/rate.ts'
import { decideRetry, type ResolvedRetry } from '../../core/calls/retry.ts'
import type { Kernel } from '../../engine/storage/kernel.ts'
import { WorkQueue } from './rules/work-queue.ts'

export interface Work {
  /** Works on a key; it comes again after so many ms if it says so. NaN: not even to look for drift. */
  call(key: string, attempt: number, signal: AbortSignal): Promise<number | null>
  /** None of the keys that were worked on is failing. */
  allWell(): void
  /** It failed, and is tried again after a pause. */
  failed(key: string, attempt: number, error: unknown): void
  /** It failed as often as the policy allows. Rejects: it is tried again. */
  giveUp(key: string, attempts: number, error: unknown): Promise<void>
  /** Nobody may work here any more: another process does. */
  isOver(error: unknown): boolean
}

export interface RunnerOptions {
  readonly concurrency: number
  readonly rate: RateSettings | null
  readonly retry: ResolvedRetry
  /** After this time everything that was done is looked at again; null: never. */
  readonly everyMs: number | null
}

const shortestPauseMs = 5

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

  /** Keys that are ready, being worked on, or to be tried again. */
  get pending(): number {
    return this.#queue.pending
  }

  add(key: string, isUrgent = false): void {
    this.#queue.add(key, isUrgent)
    this.#pump()
  }

  /** Starts nothing more; resolves when what is under way has ended. */
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

  /** Null: it was given up, and comes again only when something happens to it. */
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
      // It could not be noted: then it is not given up yet.
      return this.#options.retry.backoffMs || shortestPauseMs
    }
  }
}
