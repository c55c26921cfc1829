// One item in progress: from the source, through its attempts, until the record that it is settled is durable.

import type { Receipt } from './queues/held-message.ts'
import type { Mark } from './settled-positions.ts'
import type { Shard, ShardItem, UserSql } from './shard.ts'

export class Task<T> implements ShardItem {
  readonly item: T
  readonly key: string
  readonly print: string
  readonly version: string
  readonly shard: Shard<Task<T>>
  readonly mark: Mark | null
  /** For an item of a queue: what its source expects back. */
  readonly receipt: Receipt | null
  /** The item may have been in flight in a process that died. Its next start is recorded first. */
  isSuspect: boolean
  /** The item could not be read and is in the source's stored form. */
  isUnread = false
  /** The number of failed attempts. */
  attempts: number
  crashes: number
  retryAt: number
  holdsSlot = false
  /** Monotonic time of the attempt's start; null while the task waits. */
  startedAt: number | null = null
  nextInFlight: this | null = null
  result: unknown
  /** SQL that commits with the record that the item is done; null for none. */
  userSqls: UserSql[] | null = null
  /** Aborted when the task must stop; created on first access. */
  #controller: AbortController | null = null
  #abortReason: unknown

  constructor(
    item: T,
    key: string,
    print: string,
    version: string,
    shard: Shard<Task<T>>,
    mark: Mark | null,
    receipt: Receipt | null = null,
  ) {
    this.item = item
    this.key = key
    this.print = print
    this.version = version
    this.shard = shard
    this.mark = mark
    this.receipt = receipt
    this.isSuspect = receipt?.isRedelivered ?? false
    receipt?.taken()
    const waiting = shard.state.waiting.size > 0 ? shard.state.waiting.get(key) : undefined
    this.attempts = waiting?.attempts ?? 0
    this.crashes = waiting?.crashes ?? 0
    this.retryAt = waiting?.retryAt ?? 0
  }

  get signal(): AbortSignal {
    if (!this.#controller) {
      this.#controller = new AbortController()
      if (this.#abortReason !== undefined) this.#controller.abort(this.#abortReason)
    }
    return this.#controller.signal
  }

  abort(reason: Error): void {
    this.#abortReason = reason
    this.#controller?.abort(reason)
  }

  /** Called before the next attempt. */
  renew(): void {
    this.#controller = null
    this.#abortReason = undefined
    this.userSqls = null
    this.result = undefined
  }
}
