// Rows with an expiry, soonest first. An expired row is invisible at once; the sweep, once a second, deletes it.

import { Keyed } from '../../core/keyed-state/keyed.ts'
import type { Kernel } from '../../engine/storage/kernel.ts'
import type { OpenTimeline } from '../../engine/writing/timeline.ts'

const sweepMs = 1000
const sweepAtOnce = 1000
const timeDigits = 16

export class Endings {
  readonly #kernel: Kernel
  readonly #timeline: OpenTimeline<unknown>
  /** "<expiry> <key>". */
  readonly #due = new Keyed<string>()
  #sweepAll: (() => Promise<unknown>) | null = null
  #cancel: (() => void) | null = null
  #isOver = false

  constructor(kernel: Kernel, timeline: OpenTimeline<unknown>, expiry: Iterable<[string, number]>) {
    this.#kernel = kernel
    this.#timeline = timeline
    for (const [key, at] of expiry) this.#due.set(dueKey(at, key), key)
  }

  expires(key: string, before: number | undefined, after: number | undefined): void {
    if (before !== undefined) this.#due.delete(dueKey(before, key))
    if (after === undefined) return
    this.#due.set(dueKey(after, key), key)
    this.#schedule()
  }

  /** Calls `sweep` every second, while there are rows with an expiry and the timeline is open. */
  start(sweep: () => Promise<unknown>): void {
    this.#sweepAll = sweep
    this.#schedule()
  }

  stop(): void {
    this.#isOver = true
    this.#cancel?.()
  }

  #schedule(): void {
    // No timer without a need: a running timer keeps a lost or unclosed table in memory.
    if (this.#cancel || this.#isOver || this.#due.size === 0) return
    this.#cancel = this.#kernel.clock.after(sweepMs, () => {
      this.#cancel = null
      const { id, broken, closing } = this.#timeline
      if (broken || closing || !this.#sweepAll) return this.stop()
      void this.#sweepAll()
        .catch((error) => this.#kernel.events.emit('problem', { where: id, error }))
        .finally(() => this.#schedule())
    })
  }

  /** Passes expired keys to `remove` until none is due, and returns the number of deleted rows. */
  async sweep(remove: (keys: readonly string[]) => Promise<number>): Promise<number> {
    const until = dueKey(this.#kernel.clock.now() + 1, '')
    let count = 0
    for (;;) {
      const ended = [...this.#due.entries({ to: until, limit: sweepAtOnce })]
      if (ended.length === 0 || this.#isOver) return count
      count += await remove(ended.map(([, key]) => key))
      // After the clock was set back, rows are no longer expired: they are due later, not in this loop.
      if (ended.every(([due]) => this.#due.has(due))) return count
    }
  }
}

function dueKey(at: number, key: string): string {
  return `${String(Math.max(0, Math.floor(at))).padStart(timeDigits, '0')} ${key}`
}
