// Time that passes only by work: folds, commits and reads take the time that a test defines. So the duration of a recovery can
// be compared with its budget without a stopwatch, and is the same on every machine.

import type { Clock, Store } from '../../src/core/store/ports.ts'
import { faultyStore } from '../../src/testing/index.ts'

interface Timer {
  readonly at: number
  readonly call: () => void
}

export class CostClock {
  #now = Date.UTC(2026, 0, 1)
  readonly #timers = new Set<Timer>()
  /** The cost of each read of the clock: makes code slow that a test cannot reach. */
  lookMs = 0

  /** Wall-clock time in whole milliseconds. */
  get now(): number {
    return Math.floor(this.#now)
  }

  spend(ms: number): void {
    this.#now += ms
  }

  /** The clock of one process; after `kill` nothing that it had scheduled happens. */
  view(): { readonly clock: Clock; kill(): void } {
    let isAlive = true
    const soon = (call: () => void) => void setImmediate(() => isAlive && call())
    return {
      kill: () => {
        isAlive = false
      },
      clock: {
        now: () => Math.floor(this.#now),
        elapsed: () => {
          this.#now += this.lookMs
          return this.#now
        },
        after: (delayMs, call) => {
          const timer = { at: this.#now + delayMs, call: () => isAlive && call() }
          this.#timers.add(timer)
          return () => this.#timers.delete(timer)
        },
        soon,
        next: soon,
      },
    }
  }

  /** Calls the callbacks that are due. */
  tick(): void {
    for (const timer of [...this.#timers].sort((a, b) => a.at - b.at)) {
      if (timer.at <= this.#now && this.#timers.delete(timer)) timer.call()
    }
  }

  /** Lets this much time pass, with all that is due in it. */
  async pass(ms: number): Promise<void> {
    const until = this.#now + ms
    for (;;) {
      await settle()
      let next: Timer | null = null
      for (const timer of this.#timers) if (timer.at <= until && (next === null || timer.at < next.at)) next = timer
      if (next === null) break
      this.#timers.delete(next)
      this.#now = Math.max(this.#now, next.at)
      next.call()
    }
    this.#now = Math.max(this.#now, until)
    await settle()
  }
}

/** Turns of the loop: enough for a checkpoint in memory to be written. */
export async function settle(turns = 8): Promise<void> {
  for (let n = 0; n < turns; n++) await new Promise((resolve) => setImmediate(resolve))
}

export interface StoreCosts {
  readonly commitMs: number
  readonly readMs: number
  /** The cost of chunks, both ways. */
  readonly msPerByte: number
}

/** A store whose calls take time. */
export function costlyStore(store: Store, clock: CostClock, costs: StoreCosts): Store {
  const spent: Record<string, number> = { commit: costs.commitMs, 'blobs.put': costs.commitMs }
  const slow = faultyStore(store, (method) => {
    clock.spend(spent[method] ?? costs.readMs)
    return 'ok'
  })
  return {
    ...slow,
    blobs: {
      ...slow.blobs,
      async put(chunks) {
        for (const { bytes } of chunks) clock.spend(bytes.length * costs.msPerByte)
        await slow.blobs.put(chunks)
      },
      async get(digests) {
        const found = await slow.blobs.get(digests)
        for (const bytes of found) clock.spend((bytes?.length ?? 0) * costs.msPerByte)
        return found
      },
    },
  }
}
