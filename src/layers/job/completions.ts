// Completed items that are not durable yet. All items of a shard that complete together are written in one commit; an
// item keeps its slot until then, so a crash repeats at most as many items as may be in flight.

import { isReprise } from '../../core/errors.ts'
import type { Clock } from '../../core/store/ports.ts'
import type { Shard } from './shard.ts'
import type { Task } from './task.ts'

export interface CommitOutcomes<T> {
  /** The record that these items are done is durable. */
  done(tasks: readonly Task<T>[]): void
  /** The item's result could not be stored, or its SQL failed. */
  refused(task: Task<T>, error: unknown): void
}

interface Queue<T> {
  completed: Task<T>[]
  readonly waiting: (() => void)[]
}

export class Completions<T> {
  readonly #clock: Clock
  readonly #outcomes: CommitOutcomes<T>
  /** The shards with pending items. */
  readonly #queues = new Map<Shard<Task<T>>, Queue<T>>()

  constructor(clock: Clock, outcomes: CommitOutcomes<T>) {
    this.#clock = clock
    this.#outcomes = outcomes
  }

  add(task: Task<T>): void {
    const { shard } = task
    const queue = this.#queues.get(shard)
    if (queue) queue.completed.push(task)
    else {
      const started: Queue<T> = { completed: [task], waiting: [] }
      this.#queues.set(shard, started)
      this.#clock.soon(() => void this.#flush(shard, started))
    }
  }

  /** True if the shard has items that are not durable yet. */
  isPending(shard: Shard<Task<T>>): boolean {
    return this.#queues.has(shard)
  }

  /** Resolves when all completed items of this shard are durable, or the shard is lost. */
  async settled(shard: Shard<Task<T>>): Promise<void> {
    for (let queue = this.#queues.get(shard); queue && !shard.lost; queue = this.#queues.get(shard)) {
      const { waiting } = queue
      await new Promise<void>((resolve) => waiting.push(resolve))
    }
  }

  /** Another process owns the shard now: its items are dropped. */
  drop(shard: Shard<Task<T>>): void {
    const queue = this.#queues.get(shard)
    this.#queues.delete(shard)
    for (const resolve of queue?.waiting ?? []) resolve()
  }

  async #flush(shard: Shard<Task<T>>, queue: Queue<T>): Promise<void> {
    try {
      while (queue.completed.length > 0 && !shard.lost) await this.#write(shard, nextBatch(queue))
    } finally {
      this.drop(shard)
    }
    // No later commit is pending that could include the cursor.
    if (shard.isIdle) shard.noteMoves()
  }

  async #write(shard: Shard<Task<T>>, batch: readonly Task<T>[]): Promise<void> {
    try {
      await shard.recordDone(batch)
    } catch (error) {
      if (shard.lost) return
      // A result that cannot be stored, or a failing SQL, must not block the others: each item is written alone.
      if (batch.length > 1) for (const task of batch) await this.#write(shard, [task])
      else this.#outcomes.refused(batch[0]!, isReprise(error, 'RIDER_FAILED') ? (error.cause ?? error) : error)
      return
    }
    this.#outcomes.done(batch)
  }
}

/** Items with their own SQL are written first, and separately, so that a failure does not block the others. */
function nextBatch<T>(queue: Queue<T>): Task<T>[] {
  const all = queue.completed
  const hasUserSql = (task: Task<T>) => task.userSqls !== null
  const withSql = all.some(hasUserSql)
  queue.completed = withSql ? all.filter((task) => !hasUserSql(task)) : []
  return withSql ? all.filter(hasUserSql) : all
}
