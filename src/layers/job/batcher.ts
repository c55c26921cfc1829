// Items for `eachBatch`: collected until the batch is full or has waited long enough, then processed in one call.
// Outcomes are reported per item, so the rest of a job does not depend on batches.

import type { Clock } from '../../core/store/ports.ts'
import { logPlace } from '../../engine/base/log.ts'
import type { Host } from '../../engine/host/host.ts'
import { isPromise, within } from './attempt.ts'
import { batchPlace, recallFor } from './context.ts'
import type { ResolvedJob } from './options.ts'
import type { UserSql } from './shard.ts'
import type { Task } from './task.ts'

export interface BatchOutcomes<T> {
  succeeded(task: Task<T>): void
  failed(task: Task<T>, error: unknown): void
  /** Makes the call with the traceparent of the batch; undefined if the run is not traced. */
  around<R>(tasks: readonly Task<T>[], attempt: number, call: (traceparent: string | undefined) => R): R
}

export class Batcher<T> {
  readonly #engine: Host
  readonly #clock: Clock
  readonly #job: ResolvedJob<T>
  readonly #outcomes: BatchOutcomes<T>
  #gathered: Task<T>[] = []
  #cancelTimer: (() => void) | null = null

  constructor(engine: Host, job: ResolvedJob<T>, outcomes: BatchOutcomes<T>) {
    this.#engine = engine
    this.#clock = engine.clock
    this.#job = job
    this.#outcomes = outcomes
  }

  add(task: Task<T>): void {
    this.#gathered.push(task)
    if (this.#gathered.length >= this.#job.batchSize) this.flush()
    else this.#cancelTimer ??= this.#clock.after(this.#job.batchWaitMs, () => this.flush())
  }

  /** Starts the batch without waiting until it is full. */
  flush(): void {
    const tasks = this.takeBack()
    if (tasks.length > 0) void this.call(tasks)
  }

  /** Returns the items that were collected and not started. */
  takeBack(): Task<T>[] {
    this.#cancelTimer?.()
    this.#cancelTimer = null
    return this.#gathered.splice(0)
  }

  async call(tasks: readonly Task<T>[]): Promise<void> {
    const failures = new Map<T, unknown>()
    const userSqls: UserSql[] = []
    const controller = new AbortController()
    for (const task of tasks) {
      task.signal.addEventListener('abort', () => controller.abort(task.signal.reason), { once: true })
    }
    try {
      const attempt = Math.max(...tasks.map((task) => task.attempts)) + 1
      const items = tasks.map((task) => task.item)
      const result = this.#outcomes.around(tasks, attempt, (traceparent) =>
        this.#job.eachBatch!(items, {
          [logPlace]: batchPlace,
          job: this.#job.name,
          keys: tasks.map((task) => task.key),
          attempt,
          signal: controller.signal,
          memo: (definition, ...args) => recallFor(this.#engine, tasks, controller.signal, definition, args),
          fail: (item, error) => failures.set(item, error),
          commit: (userSql) => userSqls.push(userSql),
          ...(traceparent !== undefined && { traceparent }),
        }),
      )
      if (isPromise(result)) {
        const { timeoutMs } = this.#job
        await (timeoutMs === null ? result : within(this.#clock, timeoutMs, result, tasks))
      }
    } catch (error) {
      // The failed item is not known, so each item's next attempt is alone.
      for (const task of tasks) this.#outcomes.failed(task, error)
      return
    }
    const done = tasks.filter((task) => !failures.has(task.item))
    // The SQL is attached to one item: items that complete together are written in one commit.
    if (done[0] && userSqls.length > 0) done[0].userSqls = [...userSqls]
    for (const task of done) this.#outcomes.succeeded(task)
    for (const task of tasks) if (failures.has(task.item)) this.#outcomes.failed(task, failures.get(task.item))
  }
}
