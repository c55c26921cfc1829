// Virtual time: a clock that moves only on request. Each engine gets its own view, which a crash silences: timers of a dead
// process never fire.

import type { Clock } from '../core/store/ports.ts'

interface Timer {
  readonly at: number
  readonly order: number
  readonly call: () => void
}

export class VirtualClock {
  #now: number
  #order = 0
  #timers = new Set<Timer>()
  /** Increases with every event: code that waits for quiet watches it. */
  activity = 0

  constructor(startAt: number) {
    this.#now = startAt
  }

  now(): number {
    return this.#now
  }

  /** Time of the next timer; null if there is none. */
  nextAt(): number | null {
    let next = Number.POSITIVE_INFINITY
    for (const { at } of this.#timers) if (at < next) next = at
    return next === Number.POSITIVE_INFINITY ? null : next
  }

  /** Advances to that time and fires the due timers once. */
  leap(to: number): void {
    this.#now = Math.max(this.#now, to)
    const due = [...this.#timers].filter(({ at }) => at <= this.#now).sort((a, b) => a.at - b.at || a.order - b.order)
    for (const timer of due) {
      if (!this.#timers.delete(timer)) continue
      this.activity += 1
      timer.call()
    }
  }

  /** The clock of one process, alive as long as `isAlive` returns true; while it is paused its timers wait. */
  view(isAlive: () => boolean, paused: () => Promise<void> | null = () => null): Clock {
    const guarded = (call: () => void) => () => {
      const pause = paused()
      if (pause) void pause.then(() => isAlive() && call())
      else if (isAlive()) call()
    }
    const soon = (call: () => void) => {
      this.activity += 1
      setImmediate(guarded(call))
    }
    return {
      now: () => this.#now,
      elapsed: () => this.#now,
      after: (delayMs, call) => {
        this.#order += 1
        const timer = { at: this.#now + Math.max(0, delayMs), order: this.#order, call: guarded(call) }
        this.#timers.add(timer)
        return () => this.#timers.delete(timer)
      },
      soon,
      next: soon,
    }
  }
}
