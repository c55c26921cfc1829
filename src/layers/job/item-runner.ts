// Executes the items of one process: slots for items in flight, the rate limit, the circuit breaker, attempts with their
// timeouts, retries and dead letters. An item holds its slot from the start of an attempt until its outcome is durable.

import { RepriseError } from '../../core/errors.ts'
import { Breaker } from '../../core/retry/breaker.ts'
import { RateLimiter } from '../../core/retry/rate.ts'
import { decideRetry, isFault } from '../../core/retry/retry.ts'
import type { Host } from '../../engine/host/host.ts'
import type { Kernel } from '../../engine/storage/kernel.ts'
import { Condition, sleep } from '../../lib/waiting.ts'
import { isPromise, within } from './attempt.ts'
import { Batcher } from './batcher.ts'
import { Completions } from './completions.ts'
import { TaskContext, TracedContext } from './context.ts'
import { entry } from './entries.ts'
import type { ResolvedJob } from './options.ts'
import type { Shard } from './shard.ts'
import type { Task } from './task.ts'
import type { AttemptSpans } from './trace.ts'

export interface Counts {
  done: number
  skipped: number
  failed: number
  retried: number
}

export interface ItemRunnerEvents<T> {
  onChange(): void
  onFailure(task: Task<T>, error: unknown, next: 'retry' | 'dead'): void
  onSourceFailure(error: unknown, attempt: number, next: 'retry' | 'stop'): void
  /** Ends the job: an unusable key, or a broken source. */
  onFatal(error: unknown): void
}

/** The number of retries that may wait in memory before reading the source pauses. */
const waitingMax = 10_000

export class ItemRunner<T> {
  readonly counts: Counts = { done: 0, skipped: 0, failed: 0, retried: 0 }
  isStopping = false
  /** Null if the run is not traced. */
  spans: AttemptSpans<T> | null = null
  readonly limiter: RateLimiter | null
  readonly breaker: Breaker | null
  readonly #engine: Host
  readonly #kernel: Kernel
  readonly #job: ResolvedJob<T>
  readonly #events: ItemRunnerEvents<T>
  readonly #slots: number
  /** The job has no limit besides the slots. */
  readonly #isPlain: boolean
  #busy = 0
  /** Tasks that wait for their next attempt, without a slot, with a function that cancels the wait. */
  readonly #sleepers = new Map<Task<T>, () => void>()
  readonly #condition = new Condition()
  readonly #batcher: Batcher<T> | null
  readonly #completions: Completions<T>
  /** Stopped and cut off: outcomes are no longer recorded. */
  #isOver = false

  constructor(engine: Host, job: ResolvedJob<T>, events: ItemRunnerEvents<T>) {
    const { kernel } = engine
    this.#engine = engine
    this.#kernel = kernel
    this.#job = job
    this.#events = events
    this.#slots = job.concurrency * job.batchSize
    this.limiter = job.rate ? new RateLimiter(job.rate.perMs) : null
    this.breaker = job.breaker ? new Breaker(job.breaker) : null
    this.#batcher = job.eachBatch
      ? new Batcher(engine, job, {
          succeeded: (task) => this.#succeeded(task, undefined),
          failed: (task, error) => void this.#failed(task, error),
          around: (tasks, attempt, call) => (this.spans ? this.spans.batch(tasks, attempt, call) : call(undefined)),
        })
      : null
    this.#completions = new Completions(kernel.clock, {
      done: (tasks) => this.#done(tasks),
      refused: (task, error) => void this.#failed(task, error),
    })
    this.#isPlain = !job.eachBatch && !job.isOrderKept && !this.limiter && !this.breaker
  }

  get inFlight(): number {
    return this.#busy
  }

  get waiting(): number {
    return this.#sleepers.size
  }

  skipped(): null {
    this.counts.skipped += 1
    return null
  }

  sourceFailed(error: unknown, attempt: number, next: 'retry' | 'stop'): void {
    this.#events.onSourceFailure(error, attempt, next)
  }

  /** Takes the task and resolves when the next one may follow. False: the job is stopping, or the shard is lost. */
  async admit(task: Task<T>): Promise<boolean> {
    const { shard } = task
    shard.take(task)
    if (task.crashes >= this.#job.crashesMax) {
      await this.#giveUp(
        task,
        new RepriseError('ABORTED', `the process died ${task.crashes} times while this item was in flight`),
      )
      return !this.isStopping
    }
    // The item was in flight when the process died, perhaps with others: run alone, it shows whether it was the cause.
    const hasCrashed = task.crashes > 0
    if (hasCrashed) await this.#condition.until(() => this.#busy === 0 || this.isStopping || shard.lost !== null)
    const delayMs = task.retryAt - this.#kernel.worker.now(shard.open.id)
    if (delayMs > 0) this.#startLater(task, delayMs)
    else {
      if (this.#busy >= this.#slots && !(await this.#freeSlot(shard))) return this.#refuse(task)
      this.#hold(task)
      if (this.limiter || this.breaker || shard.careful > 0 || task.isSuspect) {
        if (!(await this.#clear(task))) return this.#refuse(task)
      }
      this.#begin(task)
      if (hasCrashed) this.flushBatch()
    }
    if (hasCrashed) await this.#condition.until(() => !task.holdsSlot || this.isStopping)
    if (this.#job.isOrderKept)
      await this.#condition.until(
        () => !shard.inFlight.has(task.key, task.print) || this.isStopping || shard.lost !== null,
      )
    else if (this.#sleepers.size >= waitingMax)
      await this.#condition.until(() => this.#sleepers.size < waitingMax || this.isStopping)
    return !this.isStopping
  }

  /** The fast path without waiting: returns true if the task was started. Otherwise `admit` it. */
  tryStart(task: Task<T>): boolean {
    if (this.#busy >= this.#slots || !this.#isPlain || this.isStopping) return false
    if (task.shard.careful > 0 || task.isSuspect || task.crashes > 0 || task.retryAt > 0) return false
    task.shard.take(task)
    this.#hold(task)
    this.#call(task)
    return true
  }

  /** Makes a task with an unreadable item a dead letter at once: another attempt would read the same. */
  async bury(task: Task<T>, error: unknown): Promise<void> {
    task.shard.take(task)
    task.isUnread = true
    task.attempts += 1
    this.#events.onFailure(task, error, 'dead')
    await this.#giveUp(task, error)
  }

  /** A task that does not belong to this job: it is treated as done without a call. */
  pass(task: Task<T>): void {
    task.shard.take(task)
    this.#completions.add(task)
  }

  /** The source is at its end: starts the batch without waiting until it is full. */
  flushBatch(): void {
    this.#batcher?.flush()
  }

  /** Resolves when the shard has nothing in flight and nothing waiting. */
  async drained(shard: Shard<Task<T>>): Promise<void> {
    await this.#condition.until(() => shard.isIdle || shard.lost !== null || this.isStopping)
  }

  /** The shard is handed over: tasks that wait for a retry are left to the next owner. */
  async leave(shard: Shard<Task<T>>): Promise<void> {
    for (const task of shard.inFlight.all()) this.#sleepers.get(task)?.()
    this.flushBatch()
    await this.drained(shard)
  }

  /**
   * Starts nothing more. Resolves when the items in flight are settled, or after the grace time; returns the number
   * that was cut off.
   */
  async stop(shards: readonly Shard<Task<T>>[], graceMs: number): Promise<number> {
    this.isStopping = true
    for (const cancel of [...this.#sleepers.values()]) cancel()
    for (const task of this.#batcher?.takeBack() ?? []) this.#refuse(task)
    this.#wake()
    let isLate = false
    const cancelTimer = this.#kernel.clock.after(graceMs, () => {
      isLate = true
      this.#wake()
    })
    await this.#condition.until(() => this.#busy === 0 || isLate || shards.every((shard) => shard.lost))
    cancelTimer()
    this.#isOver = true
    let cut = 0
    for (const shard of shards) {
      shard.isCutOff = true
      for (const task of shard.inFlight.all()) {
        cut += 1
        task.abort(new RepriseError('ABORTED', 'the job was stopped'))
      }
    }
    return cut
  }

  /** Resolves when all completed items of the shard, and the cursor they reach, are durable. */
  async settle(shard: Shard<Task<T>>): Promise<void> {
    await this.#completions.settled(shard)
    await shard.settle()
  }

  /** The source advanced over finished items: records the position occasionally, unless a commit is pending. */
  noteMoves(shard: Shard<Task<T>>): void {
    if (!this.#completions.isPending(shard)) shard.noteMoves()
  }

  /** Another process owns the shard now: its tasks here no longer count. */
  lost(shard: Shard<Task<T>>): void {
    this.#completions.drop(shard)
    for (const task of shard.inFlight.all()) {
      this.#sleepers.get(task)?.()
      shard.drop(task)
      this.spans?.cut(task)
      this.#release(task)
    }
    this.#wake()
  }

  /** The record that the tasks are done is durable: frees their slots. */
  #done(tasks: readonly Task<T>[]): void {
    this.counts.done += tasks.length
    for (const task of tasks) this.#free(task)
    if (this.spans) for (const task of tasks) this.spans.done(task)
    this.#wake()
  }

  #refuse(task: Task<T>): boolean {
    task.shard.drop(task)
    this.spans?.cut(task)
    this.#release(task)
    return false
  }

  async #freeSlot(shard: Shard<Task<T>>): Promise<boolean> {
    await this.#condition.until(() => this.#busy < this.#slots || this.isStopping || shard.lost !== null)
    return !this.isStopping && shard.lost === null
  }

  /** Waits for the limits while the slot is held. */
  async #clear(task: Task<T>): Promise<boolean> {
    const { breaker, limiter } = this
    const isOff = () => this.isStopping || task.shard.lost !== null
    const pass = async (pauseMs: (now: number) => number): Promise<boolean> => {
      for (let pause = this.#now(pauseMs); pause > 0; pause = this.#now(pauseMs)) {
        await this.#sleep(Math.min(pause, 1000))
        if (isOff()) return false
      }
      return true
    }
    if (breaker && !(await pass((now) => breaker.tryStart(now, task)))) return false
    if (task.shard.careful > 0 || task.isSuspect) {
      // The start is recorded only when the limit has room, so that a waiting item is not blamed for a crash.
      if (limiter && !(await pass((now) => limiter.pauseMs(now)))) return false
      if (task.shard.careful > 0) task.shard.careful -= 1
      task.isSuspect = false
      await task.shard.begun(task)
    }
    // The start counts against the limit at the time of the call, with nothing in between.
    return !limiter || (await pass((now) => limiter.tryStart(now)))
  }

  #now(pauseMs: (now: number) => number): number {
    return pauseMs(this.#kernel.clock.elapsed())
  }

  #begin(task: Task<T>): void {
    if (this.#batcher) this.#batcher.add(task)
    else this.#call(task)
  }

  #call(task: Task<T>): void {
    const { name, each, timeoutMs } = this.#job
    const { item, shard } = task
    try {
      const { spans } = this
      const engine = this.#engine
      const result = spans
        ? spans.call(task, (traceparent) => each!(item, new TracedContext(name, task, shard, engine, traceparent)))
        : each!(item, new TaskContext(name, task, shard, engine))
      if (!isPromise(result)) {
        this.#succeeded(task, result)
        return
      }
      const bounded = timeoutMs === null ? result : within(this.#kernel.clock, timeoutMs, result, [task])
      bounded.then(
        (value) => this.#succeeded(task, value),
        (error) => void this.#failed(task, error),
      )
    } catch (error) {
      void this.#failed(task, error)
    }
  }

  #succeeded(task: Task<T>, result: unknown): void {
    if (task.shard.lost || this.#isOver) return
    if (this.breaker?.succeeded()) this.#note(task.shard, 'resumed', 'a probe succeeded')
    task.result = result
    this.#completions.add(task)
  }

  async #failed(task: Task<T>, error: unknown): Promise<void> {
    const { shard } = task
    if (shard.lost || this.#isOver) return
    const { clock, random, worker } = this.#kernel
    if (this.isStopping && task.signal.aborted) {
      // Cut off by this process, not the item's own failure.
      this.#refuse(task)
      return
    }
    if (isFault(this.#job.retry, error) && this.breaker?.failed(clock.elapsed(), task)) {
      this.#note(shard, 'paused', error instanceof Error ? error.message : String(error))
    }
    const given = { chance: () => random.number(), now: worker.now() }
    const decision = decideRetry(this.#job.retry, task.attempts + 1, error, given)
    if (!decision.again) {
      task.attempts += 1
      const last = decision.mistake ?? error
      this.#events.onFailure(task, last, 'dead')
      await this.#giveUp(task, last)
      this.spans?.failed(task, last, null)
      this.#release(task)
      return
    }
    if (decision.counts) task.attempts += 1
    task.retryAt = worker.now(shard.open.id) + decision.delayMs
    this.counts.retried += 1
    this.#events.onFailure(task, error, 'retry')
    try {
      await shard.recordFailure(task, error)
    } catch (failure) {
      if (!shard.lost) this.#events.onFatal(failure)
      return
    }
    this.spans?.failed(task, error, decision.delayMs)
    task.renew()
    this.#release(task)
    this.#startLater(task, decision.delayMs)
  }

  async #giveUp(task: Task<T>, error: unknown): Promise<void> {
    try {
      await task.shard.bury(task, error)
      this.counts.failed += 1
      this.#wake()
    } catch (failure) {
      if (!task.shard.lost) this.#events.onFatal(failure)
    }
  }

  #startLater(task: Task<T>, delayMs: number): void {
    if (this.isStopping) {
      task.shard.drop(task)
      this.#wake()
      return
    }
    const end = () => {
      cancelTimer()
      this.#sleepers.delete(task)
    }
    const cancel = () => {
      end()
      task.shard.drop(task)
    }
    const cancelTimer = this.#kernel.clock.after(delayMs, () => {
      end()
      void this.#again(task)
    })
    this.#sleepers.set(task, cancel)
  }

  async #again(task: Task<T>): Promise<void> {
    const { shard } = task
    if (this.#busy >= this.#slots && !(await this.#freeSlot(shard))) return void this.#refuse(task)
    if (this.isStopping || shard.lost) return void this.#refuse(task)
    this.#hold(task)
    if ((this.limiter || this.breaker) && !(await this.#clear(task))) return void this.#refuse(task)
    // The retry runs alone, so that one bad item does not fail good ones twice.
    if (this.#batcher) void this.#batcher.call([task])
    else this.#call(task)
  }

  #note(shard: Shard<Task<T>>, type: 'paused' | 'resumed', because: string): void {
    const note =
      type === 'paused'
        ? entry('paused', {
            because,
            until: this.#kernel.worker.now(shard.open.id) + (this.breaker!.openUntil! - this.#kernel.clock.elapsed()),
          })
        : entry('resumed', { because })
    this.spans?.note(`reprise.${type}`, { 'reprise.because': because })
    shard.write([note]).catch(() => undefined)
  }

  #hold(task: Task<T>): void {
    task.holdsSlot = true
    task.startedAt = this.#kernel.clock.elapsed()
    this.#busy += 1
  }

  #release(task: Task<T>): void {
    this.#free(task)
    this.#wake()
  }

  #free(task: Task<T>): void {
    this.breaker?.left(task)
    if (!task.holdsSlot) return
    task.holdsSlot = false
    task.startedAt = null
    this.#busy -= 1
  }

  #wake(): void {
    this.#events.onChange()
    this.#condition.changed()
  }

  #sleep(ms: number): Promise<void> {
    return sleep(this.#kernel.clock, ms)
  }
}
