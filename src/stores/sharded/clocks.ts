// The clocks of the shards. Each database has its own, and they disagree: a deadline belongs to the clock of the shard
// that has its timeline, which also dates the mail of that timeline. Heartbeats measure how far ahead each clock is.

import type { ShardClock } from '../../core/store/store-facts.ts'
import type { Shard, Timers } from './shard.ts'

export class Clocks {
  readonly #timers: Timers
  /** Per shard: its clock minus the monotonic clock of this process. */
  readonly #offsets = new Map<Shard, number>()
  /** The same for the time that the last heartbeat returned. */
  #reference: number | null = null

  constructor(timers: Timers) {
    this.#timers = timers
  }

  /**
   * Measures the clock of a shard by a call that returns its time. The clock was read at some point during the call, so its
   * offset is known within the length of the call: an earlier measurement is moved only as far as this one contradicts it.
   */
  async measure<T extends { readonly now: number }>(shard: Shard, call: () => T | Promise<T>): Promise<T> {
    const before = this.#timers.elapsed()
    const answer = await call()
    const [least, most] = [answer.now - this.#timers.elapsed(), answer.now - before]
    const known = this.#offsets.get(shard) ?? (least + most) / 2
    this.#offsets.set(shard, Math.min(most, Math.max(least, known)))
    return answer
  }

  /** A heartbeat that began at `before` returned this time: `ahead` counts from it. */
  answered(now: number, before: number): void {
    this.#reference = now - (before + this.#timers.elapsed()) / 2
  }

  elapsed(): number {
    return this.#timers.elapsed()
  }

  /** How far the clock of this shard is ahead of the time that the last heartbeat returned, in milliseconds. */
  ahead(shard: Shard | undefined): number {
    const offset = shard && this.#offsets.get(shard)
    return offset === undefined || this.#reference === null ? 0 : Math.round(offset - this.#reference)
  }

  /** Every clock that was measured, against the slowest of them. */
  list(): ShardClock[] {
    const least = Math.min(...this.#offsets.values())
    return [...this.#offsets].map(([{ index, name }, offset]) => {
      return { shard: index, location: name, aheadMs: Math.round(offset - least) }
    })
  }
}
