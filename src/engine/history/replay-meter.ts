// Times the fold during normal work, so that the cost of a replay is known before the first one. A cheap fold is
// sampled, as reading the clock would cost a sizeable part of it; a costly one is timed every time.

import type { Clock } from '../../core/store/ports.ts'

/** The first entries are all timed: a budget applies from the first minute. */
const timedFirst = 256
/** After that, one call in this many is timed. */
const oneIn = 16
/** A fold slower than this per entry is always timed: reading the clock then costs little in comparison. */
const costlyMs = 0.02
/** The mean covers about this many entries: old ones fade. */
const memory = 512
/** The weight of a mean that another process measured. */
const inherited = 64

export class ReplayMeter {
  readonly #clock: Pick<Clock, 'elapsed'>
  #mean: number | null
  #seen: number
  #calls = 0
  /** Timed, and not yet returned by `take`. */
  #timedMs = 0
  #timedEntries = 0
  /** Entries timed in this process. */
  timed = 0

  constructor(clock: Pick<Clock, 'elapsed'>, mean: number | null) {
    this.#clock = clock
    this.#mean = mean
    this.#seen = mean === null ? 0 : inherited
  }

  /** Milliseconds per entry; null before the first measurement. */
  get mean(): number | null {
    return this.#mean
  }

  /** Returns a negative number if this call is not timed. Pass the result to `stop`, unless the fold threw. */
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

  /** The time of folding the entries just written: as measured, and estimated by the mean for the rest. */
  take(entries: number): number {
    const rest = Math.max(0, entries - this.#timedEntries)
    const ms = this.#timedMs + rest * (this.#mean ?? 0)
    this.#timedMs = 0
    this.#timedEntries = 0
    return ms
  }
}
