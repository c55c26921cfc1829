// A message between its delivery and its acknowledgement. The job holds one receipt for each item of a queue.

import { createHash } from 'node:crypto'
import type { Delivery } from './external-queue.ts'

/** Names a message by its content, for the dead letter of a message without an id. */
export function messagePrint(message: unknown): string {
  const plain = JSON.stringify(message, (_, value) => (typeof value === 'bigint' ? String(value) : value)) ?? ''
  return `message-${createHash('sha256').update(plain).digest('hex').slice(0, 32)}`
}

/** What a source expects back for an item. Exactly one of `settled` and `released` takes effect. */
export interface Receipt {
  /** The broker may have delivered the message before, perhaps to a process that died while holding it. */
  readonly isRedelivered: boolean
  /** The item in the form in which the source stores it. */
  readonly stored: unknown
  /** The source's key for the item. Null: the source has no such value. */
  readonly id: string | null
  /** A key for an item that cannot be read. */
  readonly key: string
  /** The item has become a task: it is no longer released when the job stops reading. */
  taken(): void
  /** Another delivery of an item in flight shares its fate. */
  join(other: Receipt): void
  /** The record of the item is durable. */
  settled(): void
  /** This process gives up the item without recording it. */
  released(): void
}

export interface HeldHooks<Message> {
  settled(held: HeldMessage<Message>): void
  released(held: HeldMessage<Message>): void
}

export class HeldMessage<Message> implements Receipt {
  readonly delivery: Delivery<Message>
  readonly key: string
  readonly #hooks: HeldHooks<Message>
  #others: Receipt[] | null = null
  #state: 'received' | 'taken' | 'over' = 'received'

  constructor(delivery: Delivery<Message>, key: string, hooks: HeldHooks<Message>) {
    this.delivery = delivery
    this.key = key
    this.#hooks = hooks
  }

  get isRedelivered(): boolean {
    return this.delivery.isRedelivered
  }

  get id(): string | null {
    return this.delivery.id
  }

  get stored(): unknown {
    return this.delivery.message
  }

  get isTaken(): boolean {
    return this.#state === 'taken'
  }

  get isOver(): boolean {
    return this.#state === 'over'
  }

  taken(): void {
    if (this.#state === 'received') this.#state = 'taken'
  }

  join(other: Receipt): void {
    other.taken()
    this.#others ??= []
    this.#others.push(other)
  }

  settled(): void {
    if (this.#state !== 'over') {
      this.#state = 'over'
      this.#hooks.settled(this)
    }
    for (const other of this.#others ?? []) other.settled()
  }

  released(): void {
    if (this.#state !== 'over') {
      this.#state = 'over'
      this.#hooks.released(this)
    }
    for (const other of this.#others ?? []) other.released()
  }
}
