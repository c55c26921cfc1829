// Rows that end by themselves, soonest first. A row whose time is over is invisible at once; the sweep, once a second,
// takes it out for good.

import { Keyed } from '../../core/keyed.ts'
import type { Kernel } from '../../engine/kernel.ts'

const sweepMs = 1000
const sweepAtOnce = 1000
const timeDigits = 16

export class Endings {
  readonly #kernel: Kernel
  /** "<expiry> <key>". */
  readonly #due = new Keyed<string>()
  #cancel: (() => void) | null = null
  #isOver = false

  constructor(kernel: Kernel, expiry: Iterable<[string, number]>) {
    this.#kernel = kernel
    for (const [key, at] of expiry) this.#due.set(dueKey(at, key), key)
  }

  expires(key: string, before: number | undefined, after: number | undefined): void {
    if (before !== undefined) this.#due.delete(dueKey(before, key))
    if (after !== undefined) this.#due.set(dueKey(after, key), key)
  }

  /** Calls `sweep` every second until it is stopped. */
  start(timeline: string, sweep: () => Promise<unknown>): void {
    const next = () => {
      if (this.#isOver) return
      this.#cancel = this.#kernel.clock.after(sweepMs, () => {
        if (this.#due.size === 0) return next()
        void sweep()
          .catch((error) => this.#kernel.events.emit('problem', { where: timeline, error }))
          .finally(next)
      })
    }
    next()
  }

  stop(): void {
    this.#isOver = true
    this.#cancel?.()
  }

  /** Hands over what is due until nothing is; says how many rows were taken out. */
  async sweep(remove: (keys: readonly string[]) => Promise<number>): Promise<number> {
    const until = dueKey(this.#kernel.clock.now() + 1, '')
    let count = 0
    for (;;) {
      const ended = [...this.#due.entries({ to: until, limit: sweepAtOnce })]
      if (ended.length === 0 || this.#isOver) return count
      count += await remove(ended.map(([, key]) => key))
      // A clock that was set back makes rows young again: they are due another time, not in this loop.
      if (ended.every(([due]) => this.#due.has(due))) return count
    }
  }
}

function dueKey(at: number, key: string): string {
  return `${String(Math.max(0, Math.floor(at))).padStart(timeDigits, '0')} ${key}`
}
