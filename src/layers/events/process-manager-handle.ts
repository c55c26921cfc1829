// The user's handle of a process manager. Handles of one process manager in one process share its subscription, which ends with
// the last of them; `rp.work` holds one until the engine is closed.

import type { Quarantined } from '../../engine/feed/sink.ts'
import type { CatchUpOptions, Subscription, SubscriptionStatus } from '../../engine/feed/subscription.ts'
import type { Occurrence } from './source.ts'

/** An open process manager: its position and its dead letters. */
export class ProcessManager {
  readonly id: string
  readonly timeline: string
  readonly #subscription: Subscription<Occurrence>
  readonly #release: () => Promise<void>
  #closing: Promise<void> | null = null

  /** @internal */
  constructor(id: string, subscription: Subscription<Occurrence>, release: () => Promise<void>) {
    this.id = id
    this.timeline = subscription.sink.where
    this.#subscription = subscription
    this.#release = release
  }

  status(): SubscriptionStatus {
    return this.#subscription.status()
  }

  /** Resolves when every event that is in the feed now was handled, here or by the process that owns the process manager. */
  async catchUp(options: CatchUpOptions = {}): Promise<void> {
    await this.#subscription.catchUp(options)
  }

  /** Resumes after a stop on poison: once the handler is fixed, or to see the error again. */
  resume(): void {
    this.#subscription.resume()
  }

  /** Events that were skipped because their handler threw, with their errors. */
  async deadLetters(): Promise<readonly Quarantined[]> {
    return this.#subscription.sink.quarantine
  }

  /**
   * Handles dead letters again, all or the given ones, once the handler is fixed. Returns their number. Rejects at the first
   * letter that still fails, which stays a dead letter.
   */
  redrive(letters?: readonly Pick<Quarantined, 'timeline' | 'seq'>[]): Promise<number> {
    return this.#subscription.redrive(letters)
  }

  /** Discards dead letters, all or the given ones, and returns their number. */
  discard(letters?: readonly Pick<Quarantined, 'timeline' | 'seq'>[]): Promise<number> {
    return this.#subscription.discard(letters)
  }

  /** Releases this handle. The work continues while another handle or `rp.work` holds it. */
  async close(): Promise<void> {
    this.#closing ??= this.#release()
    await this.#closing
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }
}
