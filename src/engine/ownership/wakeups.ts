// Expected wakeups: when a process must claim again after it released timelines. One claim serves all wakeups of the
// same few milliseconds, no matter how many there are.

/** Slightly late is better than slightly early: an early claim finds nothing, and the next one is far away. */
const lateMs = 2
const tickMs = 10
const secondMs = 1000

export class Wakeups {
  /** Claim times, by second. */
  readonly #ticks = new Map<number, Set<number>>()
  /** No tick is in a second before this one. */
  #first = Number.POSITIVE_INFINITY

  /** Returns the time of the claim for it. */
  add(wakeup: number): number {
    const tick = Math.ceil((wakeup + lateMs) / tickMs) * tickMs
    const second = Math.floor(tick / secondMs)
    if (second < this.#first) this.#first = second
    const ticks = this.#ticks.get(second) ?? new Set()
    this.#ticks.set(second, ticks.add(tick))
    return tick
  }

  /** The first tick after the last claim and not after `until`; `until` if there is none. Removes earlier ones. */
  next(lookedAt: number, until: number): number {
    this.#forgetBefore(Math.floor(lookedAt / secondMs))
    let next = until
    for (let second = this.#first; second <= Math.floor(until / secondMs); second++) {
      for (const tick of this.#ticks.get(second) ?? []) if (tick > lookedAt && tick < next) next = tick
      if (next < until) break
    }
    return next
  }

  #forgetBefore(second: number): void {
    if (second <= this.#first) return
    // After a long pause there are fewer ticks than seconds.
    if (second - this.#first > this.#ticks.size) {
      for (const each of this.#ticks.keys()) if (each < second) this.#ticks.delete(each)
    } else for (let each = this.#first; each < second; each++) this.#ticks.delete(each)
    this.#first = this.#ticks.size === 0 ? Number.POSITIVE_INFINITY : second
  }
}
