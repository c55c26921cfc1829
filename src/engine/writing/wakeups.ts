// Wakeups that are expected: when a process that let timelines go must look again, to be there on time. However many there
// are, one look serves those of the same few milliseconds.

/** A little late rather than a little early: a look before its time finds nothing, and the next is far away. */
const lateMs = 2
const tickMs = 10
const secondMs = 1000

export class Wakeups {
  /** Times to look at, by second. */
  readonly #ticks = new Map<number, Set<number>>()
  /** No tick is in a second before this one. */
  #first = Number.POSITIVE_INFINITY

  /** When to look for it. */
  add(wakeup: number): number {
    const tick = Math.ceil((wakeup + lateMs) / tickMs) * tickMs
    const second = Math.floor(tick / secondMs)
    if (second < this.#first) this.#first = second
    const ticks = this.#ticks.get(second) ?? new Set()
    this.#ticks.set(second, ticks.add(tick))
    return tick
  }

  /** The first after the last look and not after `until`; `until` if there is none. Those before are forgotten. */
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
    // After a long pause there are fewer of them than seconds.
    if (second - this.#first > this.#ticks.size) {
      for (const each of this.#ticks.keys()) if (each < second) this.#ticks.delete(each)
    } else for (let each = this.#first; each < second; each++) this.#ticks.delete(each)
    this.#first = this.#ticks.size === 0 ? Number.POSITIVE_INFINITY : second
  }
}
