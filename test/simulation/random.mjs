// The one source of chance of a simulation: everything that is drawn comes from the seed, in the order it is drawn.

export class SeededRandom {
  #state

  constructor(seed) {
    this.#state = Math.imul(seed ^ 0x9e3779b9, 0x85ebca6b) | 0
  }

  /** From 0 up to, not including, 1. */
  number() {
    this.#state = (this.#state + 0x6d2b79f5) | 0
    let t = this.#state
    t = Math.imul(t ^ (t >>> 15), 1 | t)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296
  }

  /** A whole number from 0 up to, not including, `count`. */
  int(count) {
    return Math.floor(this.number() * count)
  }

  between(least, most) {
    return least + this.number() * (most - least)
  }

  chance(probability) {
    return this.number() < probability
  }

  pick(list) {
    return list[this.int(list.length)]
  }

  /** A key of the record, as likely as its weight. */
  weighted(weights) {
    let total = 0
    for (const key in weights) total += weights[key]
    let at = this.number() * total
    let last
    for (const key in weights) {
      if (weights[key] === 0) continue
      last = key
      at -= weights[key]
      if (at < 0) return key
    }
    return last
  }

  bytes(count) {
    const bytes = new Uint8Array(count)
    for (let i = 0; i < count; i++) bytes[i] = this.int(256)
    return bytes
  }
}
