// Deliveries that wait to be acknowledged or released. Deliveries that become ready during a
// request share the next one.

import type { HeldMessage } from './held-message.ts'

export class DeliveryOutbox<Message> {
  readonly #send: (held: readonly HeldMessage<Message>[]) => Promise<void>
  readonly #onFailure: (error: unknown) => void
  #ready: HeldMessage<Message>[] = []
  #sending: Promise<void> | null = null

  constructor(send: (held: readonly HeldMessage<Message>[]) => Promise<void>, onFailure: (error: unknown) => void) {
    this.#send = send
    this.#onFailure = onFailure
  }

  add(held: HeldMessage<Message>): void {
    this.#ready.push(held)
    this.#sending ??= this.#sendAll()
  }

  /** Resolves when nothing waits. */
  async sent(): Promise<void> {
    while (this.#sending) await this.#sending
  }

  async #sendAll(): Promise<void> {
    // Items that became durable together are added together.
    await Promise.resolve()
    while (this.#ready.length > 0) {
      const held = this.#ready
      this.#ready = []
      try {
        await this.#send(held)
      } catch (error) {
        this.#onFailure(error)
      }
    }
    this.#sending = null
  }
}
