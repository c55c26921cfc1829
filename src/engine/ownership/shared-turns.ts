// Turns of processes that share one timeline: the writer owns it, and the others wait until the owner is idle or has had
// its turn before they take it. A turn that ended before anything was written makes the turns granted by this process
// longer, however slow the store or the machine is; so some process always makes progress. Safety does not depend on
// this: the epoch keeps out stale writes.

import type { Head } from '../../core/store/ports.ts'
import { sleep } from '../../lib/waiting.ts'
import type { Kernel } from '../storage/kernel.ts'

/** An owner that has not moved the head for this long is idle. */
const restMs = 6
/** An owner that keeps writing has had its turn after this long. */
const turnMs = 60
/** The longest multiple of these times. */
const patienceMax = 64

export class TurnOrder {
  readonly #kernel: Kernel
  #patience = 1

  constructor(kernel: Kernel) {
    this.#kernel = kernel
  }

  /** It was displaced before it wrote anything. */
  lost(): void {
    this.#patience = Math.min(patienceMax, this.#patience * 2)
  }

  written(): void {
    this.#patience = Math.max(1, this.#patience * 0.9)
  }

  /** Waits until the owner elsewhere may be displaced, or no longer exists. `look` reads the head. */
  async mine(look: () => Promise<Head | null>, isElsewhere: (head: Head) => boolean, until: number): Promise<void> {
    const { clock } = this.#kernel
    let seen = await look()
    if (!seen || !isElsewhere(seen)) return
    const since = clock.elapsed()
    while (clock.elapsed() < until) {
      await this.pause(restMs)
      const head = await look()
      if (!head || !isElsewhere(head)) return
      const isAtRest = head.epoch === seen.epoch && head.seq === seen.seq
      if (isAtRest || clock.elapsed() - since >= turnMs * this.#patience) return
      seen = head
    }
  }

  /** Randomised, so that waiting processes do not all retry at once. */
  async pause(ms: number): Promise<void> {
    const { clock, random } = this.#kernel
    const delayMs = ms * this.#patience * (1 + random.number())
    await sleep(clock, delayMs)
  }
}
