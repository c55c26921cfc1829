// Items that completed and wait to become durable. Everything of a shard that completes in one moment goes into one commit;
// an item keeps its slot until that is durable, so a crash repeats at most as many items as may be in flight.

import { isReprise } from '../../core/errors.ts'
import type { Clock } from '../../core/store/ports.ts'
import type { Shard } from './shard.ts'
import type { Task } from './task.ts'

export interface CommitOutcomes<T> {
  /** The record that these items are done is durable. */
  done(tasks: readonly Task<T>[]): void
  /** Its result could not be kept, or its SQL failed. */
  refused(task: Task<T>, error: unknown): void
}

interface Queue<T> {
  completed: Task<T>[]
  readonly waiting: (() => void)[]
}

export class Completions<T> {
  readonly #clock: Clock
  readonly #outcomes: CommitOutcomes<T>
  /** Of the shards that have something to write. */
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

  /** Something of this shard is not durable yet. */
  isPending(shard: Shard<Task<T>>): boolean {
    return this.#queues.has(shard)
  }

  /** Resolves when everything of this shard that completed so far is durable, or the shard is lost. */
  async settled(shard: Shard<Task<T>>): Promise<void> {
    for (let queue = this.#queues.get(shard); queue && !shard.lost; queue = this.#queues.get(shard)) {
      const { waiting } = queue
      await new Promise<void>((resolve) => waiting.push(resolve))
    }
  }

  /** Another process has the shard now: nobody waits for it any more. */
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
    // Nothing more is on its way that could carry the cursor along.
    if (shard.isIdle) shard.noteMoves()
  }

  async #write(shard: Shard<Task<T>>, batch: readonly Task<T>[]): Promise<void> {
    try {
      await shard.recordDone(batch)
    } catch (error) {
      if (shard.lost) return
      // One result that cannot be kept, or one failing SQL, must not hold up the others: each on its own.
      if (batch.length > 1) for (const task of batch) await this.#write(shard, [task])
      else this.#outcomes.refused(batch[0]!, isReprise(error, 'RIDER_FAILED') ? (error.cause ?? error) : error)
      return
    }
    this.#outcomes.done(batch)
  }
}

/** Those with SQL of their own go first, and apart: if it fails, the others are not held up. */
function nextBatch<T>(queue: Queue<T>): Task<T>[] {
  const all = queue.completed
  const hasUserSql = (task: Task<T>) => task.userSqls !== null
  const withSql = all.some(hasUserSql)
  queue.completed = withSql ? all.filter((task) => !hasUserSql(task)) : []
  return withSql ? all.filter(hasUserSql) : all
}
