// Times the fold while the work goes on, so that the cost of a replay is known before there ever was one. A cheap fold is
// timed now and then, since reading a clock would cost a sizeable part of it; a costly one is timed every time.

import type { Clock } from '../../core/store/ports.ts'

/** The first entries are all timed: a budget holds from the first minute. */
const timedFirst = 256
/** Then one call in so many… */
const oneIn = 16
/** …unless an entry takes longer than this: then reading the clock costs nothing beside it. */
const costlyMs = 0.02
/** The mean is one of about this many entries: old ones fade. */
const memory = 512
/** How much a mean counts that another process measured. */
const inherited = 64

export class ReplayMeter {
  readonly #clock: Pick<Clock, 'elapsed'>
  #mean: number | null
  #seen: number
  #calls = 0
  /** Timed, and not yet taken. */
  #timedMs = 0
  #timedEntries = 0
  /** Entries timed in this process. */
  timed = 0

  constructor(clock: Pick<Clock, 'elapsed'>, mean: number | null) {
    this.#clock = clock
    this.#mean = mean
    this.#seen = mean === null ? 0 : inherited
  }

  /** Milliseconds per entry; null until something was timed. */
  get mean(): number | null {
    return this.#mean
  }

  /** Negative: not this time. Whatever comes out is handed to `stop`, if the fold did not throw. */
  start(): number {
    this.#calls += 1
    const isTimed = this.timed < timedFirst || this.#calls % oneIn === 0 || this.#mean! > costlyMs
    return isTimed ? this.#clock.elapsed() : -1
  }

  stop(startedAt: number, entries: number): void {
    if (startedAt < 0 || entries === 0) return
    const ms = Math.max(0, this.#clock.elapsed() - startedAt)
    this.#timedMs += ms
    this.#timedEntries += entries
    this.timed += entries
    this.#seen = Math.min(memory, this.#seen + entries)
    const share = Math.min(1, entries / this.#seen)
    this.#mean = this.#mean === null ? ms / entries : this.#mean + (ms / entries - this.#mean) * share
  }

  /** What folding the entries that were just written takes: as timed, and by the mean where they were not. */
  take(entries: number): number {
    const rest = Math.max(0, entries - this.#timedEntries)
    const ms = this.#timedMs + rest * (this.#mean ?? 0)
    this.#timedMs = 0
    this.#timedEntries = 0
    return ms
  }
}
