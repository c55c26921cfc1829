// A sink that writes only parts that it owns: it takes its part when the part is free and its share allows it, loses it when
// another process takes it over, and releases it when it has too many. A position is written with the items it covers. Without
// items it is written only occasionally, because each write is itself an entry in the feed.

import { assert } from '../../core/assert.ts'
import { isReprise } from '../../core/errors.ts'
import type { FeedPosition } from '../../core/store/ports.ts'
import type { Kernel } from '../storage/kernel.ts'
import type { ShareGate } from './fair-share.ts'
import type { Occurred, Quarantined, SubscriptionSink } from './sink.ts'

const quietMs = 30_000

export abstract class OwnedSink<Item extends Occurred, Held extends object> implements SubscriptionSink<Item> {
  protected readonly kernel: Kernel
  readonly #gate: ShareGate
  #held: Held | null = null
  /** Ahead of the written position, because there were no items for this sink in between. */
  #ahead: FeedPosition | null = null
  #writtenAt = 0

  constructor(kernel: Kernel, gate: ShareGate) {
    this.kernel = kernel
    this.#gate = gate
  }

  abstract readonly where: string
  abstract readonly quarantine: readonly Quarantined[]
  abstract stored(): Promise<FeedPosition>
  abstract setAside(poison: Quarantined): Promise<void>
  abstract redrive(item: Item): Promise<void>
  abstract discard(letter: Quarantined): Promise<void>
  abstract isCurrent(): Promise<boolean>
  /** The written position of the owned part; the start if none is owned. */
  protected abstract readonly written: FeedPosition
  /** Null, OWNED or FENCED: the part is not available now. */
  protected abstract take(): Promise<Held | null>
  protected abstract isLost(held: Held): boolean
  protected abstract leave(held: Held): Promise<void>
  /** Applies the items and writes the position, in one commit or in several with possible crashes between them. */
  protected abstract advance(held: Held, items: readonly Item[], next: FeedPosition): Promise<void>

  get isOwned(): boolean {
    return this.#held !== null && !this.isLost(this.#held)
  }

  get position(): FeedPosition {
    const { written } = this
    return this.#ahead !== null && this.#ahead > written ? this.#ahead : written
  }

  protected get held(): Held | null {
    return this.#held
  }

  async apply(items: readonly Item[], next: FeedPosition): Promise<void> {
    assert(next >= this.position, 'a position only moves forward')
    if (items.length === 0 && this.kernel.clock.elapsed() - this.#writtenAt < quietMs) {
      this.#ahead = next
      return
    }
    await this.advance(this.#held!, items, next)
    this.#wrote()
  }

  async idle(): Promise<void> {
    if (this.isOwned) {
      if (this.#gate.shouldGiveUp()) await this.close()
      return
    }
    if (!this.#gate.mayTake()) return
    try {
      this.#held = await this.take()
      this.#wrote()
    } catch (error) {
      if (!isReprise(error, 'OWNED', 'FENCED')) throw error
    }
  }

  /** Releases the part: later writes would be refused, because the store has another history now. */
  async reload(): Promise<void> {
    await this.close().catch(() => undefined)
  }

  async close(): Promise<void> {
    const held = this.isOwned ? this.#held : null
    this.#held = null
    this.#wrote()
    if (held) await this.leave(held)
  }

  #wrote(): void {
    this.#ahead = null
    this.#writtenAt = this.kernel.clock.elapsed()
  }
}
